// Informers is a kube-scheduler extender as most are written today: it knows nodes and pods by the
// shared informers of client-go, and has one rule and one score. It is told the names of nodes, or
// gets the nodes themselves.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the cluster")
	listen := flag.String("listen", "127.0.0.1:0", "host and port")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, nodes := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes()
	if err := pods.AddIndexers(cache.Indexers{onNode: nodeOf}); err != nil {
		log.Fatal(err)
	}
	e := &extender{nodes.Lister(), pods.GetIndexer()}
	synced := nodes.Informer().HasSynced
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced, pods.HasSynced) {
		log.Fatal("the caches have not synced")
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", e.filter)
	mux.HandleFunc("POST /prioritize", e.prioritize)
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}
