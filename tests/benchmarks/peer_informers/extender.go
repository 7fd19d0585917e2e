package main

import (
	"encoding/json"
	"errors"
	"net/http"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	onNode    = "node"
	dedicated = "dedicated"
	reason    = "the node is dedicated to others"
)

var errNoNodes = errors.New("neither nodes nor their names")

type extender struct {
	nodes corelisters.NodeLister
	pods  cache.Indexer
}

// nodeOf indexes pods by the node that they are on.
func nodeOf(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}

func (e *extender) filter(w http.ResponseWriter, r *http.Request) {
	args, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	failed := extenderv1.FailedNodesMap{}
	result := &extenderv1.ExtenderFilterResult{FailedAndUnresolvableNodes: failed}
	if args.NodeNames != nil {
		names := make([]string, 0, len(*args.NodeNames))
		for _, name := range *args.NodeNames {
			if node, err := e.nodes.Get(name); err == nil && fits(args.Pod, node) {
				names = append(names, name)
			} else {
				failed[name] = reason
			}
		}
		result.NodeNames = &names
	} else {
		found := &v1.NodeList{Items: make([]v1.Node, 0, len(args.Nodes.Items))}
		for i := range args.Nodes.Items {
			if node := &args.Nodes.Items[i]; fits(args.Pod, node) {
				found.Items = append(found.Items, *node)
			} else {
				failed[node.Name] = reason
			}
		}
		result.Nodes = found
	}
	answer(w, result)
}

func (e *extender) prioritize(w http.ResponseWriter, r *http.Request) {
	args, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var names []string
	if args.NodeNames != nil {
		names = *args.NodeNames
	} else {
		for i := range args.Nodes.Items {
			names = append(names, args.Nodes.Items[i].Name)
		}
	}
	scores := make(extenderv1.HostPriorityList, len(names))
	for i, name := range names {
		scores[i] = extenderv1.HostPriority{Host: name, Score: e.score(name)}
	}
	answer(w, scores)
}

// fits is the rule: a dedicated node takes only the pods that it is dedicated to.
func fits(pod *v1.Pod, node *v1.Node) bool {
	purpose, ok := node.Labels[dedicated]
	return !ok || purpose == pod.Labels[dedicated]
}

// score is 10 for an empty node, and 0 for one with a hundred pods.
func (e *extender) score(name string) int64 {
	keys, err := e.pods.IndexKeys(onNode, name)
	if err != nil {
		return 0
	}
	return max(0, 10-int64(len(keys))/10)
}

func read(r *http.Request) (*extenderv1.ExtenderArgs, error) {
	args := &extenderv1.ExtenderArgs{}
	if err := json.NewDecoder(r.Body).Decode(args); err != nil {
		return nil, err
	}
	if args.NodeNames == nil && args.Nodes == nil {
		return nil, errNoNodes
	}
	return args, nil
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// An answer that nobody reads any more is nobody's loss.
	_ = json.NewEncoder(w).Encode(value)
}
