// Peer is a kube-scheduler extender as one writes it by hand: the nodes in a map, one rule, one score.
//
// With -parse-nothing it is the least that an extender can do: the names of a filter call are cut out
// of the body and sent back, and prioritize has no opinion.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
)

func main() {
	snapshot := flag.String("snapshot", "", "what `kubectl get nodes,pods,replicasets -A -o json` wrote")
	nothing := flag.Bool("parse-nothing", false, "send every name back unread")
	listen := flag.String("listen", "127.0.0.1:0", "host and port")
	flag.Parse()

	mux := http.NewServeMux()
	if *nothing {
		mux.HandleFunc("POST /filter", echo)
		mux.HandleFunc("POST /prioritize", abstain)
	} else {
		nodes, err := readNodes(*snapshot)
		if err != nil {
			log.Fatal(err)
		}
		e := &extender{nodes}
		mux.HandleFunc("POST /filter", e.filter)
		mux.HandleFunc("POST /prioritize", e.prioritize)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}
