package main

import (
	"encoding/json"
	"net/http"
)

const (
	dedicated = "dedicated"
	reason    = "the node is dedicated to others"
)

type metadata struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

type object struct {
	Metadata metadata `json:"metadata"`
}

// A nodeList keeps its nodes as they came: they are sent back, and little of them is read.
type nodeList struct {
	Items []json.RawMessage `json:"items"`
}

type extenderArgs struct {
	Pod       object
	Nodes     *nodeList
	NodeNames *[]string
}

type filterResult struct {
	Nodes                      *nodeList
	NodeNames                  *[]string
	FailedNodes                map[string]string
	FailedAndUnresolvableNodes map[string]string
	Error                      string
}

type hostPriority struct {
	Host  string
	Score int64
}

type extender struct {
	nodes map[string]*node
}

func (e *extender) filter(w http.ResponseWriter, r *http.Request) {
	args, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	failed := map[string]string{}
	result := filterResult{FailedAndUnresolvableNodes: failed}
	if args.NodeNames != nil {
		names := make([]string, 0, len(*args.NodeNames))
		for _, name := range *args.NodeNames {
			if known := e.nodes[name]; known != nil && fits(&args.Pod, known.labels) {
				names = append(names, name)
			} else {
				failed[name] = reason
			}
		}
		result.NodeNames = &names
	} else {
		items := make([]json.RawMessage, 0, len(args.Nodes.Items))
		for _, item := range args.Nodes.Items {
			var offered object
			if err := json.Unmarshal(item, &offered); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if fits(&args.Pod, offered.Metadata.Labels) {
				items = append(items, item)
			} else {
				failed[offered.Metadata.Name] = reason
			}
		}
		result.Nodes = &nodeList{items}
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
		for _, item := range args.Nodes.Items {
			var offered object
			if err := json.Unmarshal(item, &offered); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			names = append(names, offered.Metadata.Name)
		}
	}
	scores := make([]hostPriority, len(names))
	for i, name := range names {
		scores[i] = hostPriority{name, e.score(name)}
	}
	answer(w, scores)
}

// fits is the rule: a dedicated node takes only the pods that it is dedicated to.
func fits(pod *object, labels map[string]string) bool {
	purpose, ok := labels[dedicated]
	return !ok || purpose == pod.Metadata.Labels[dedicated]
}

// score is 10 for an empty node, and 0 for one with a hundred pods.
func (e *extender) score(name string) int64 {
	known := e.nodes[name]
	if known == nil {
		return 0
	}
	return max(0, 10-int64(known.pods)/10)
}

func read(r *http.Request) (*extenderArgs, error) {
	args := &extenderArgs{}
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
