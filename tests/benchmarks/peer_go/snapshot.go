package main

import (
	"encoding/json"
	"errors"
	"os"
)

var errNoNodes = errors.New("the request has neither NodeNames nor Nodes")

// A node is what the rule and the score read of one.
type node struct {
	labels map[string]string
	pods   int
}

// readNodes reads a list of nodes and pods, and counts the pods on each node.
func readNodes(path string) (map[string]*node, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var list struct {
		Items []struct {
			Kind     string   `json:"kind"`
			Metadata metadata `json:"metadata"`
			Spec     struct {
				NodeName string `json:"nodeName"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.NewDecoder(file).Decode(&list); err != nil {
		return nil, err
	}
	nodes := map[string]*node{}
	for _, item := range list.Items {
		if item.Kind == "Node" {
			nodes[item.Metadata.Name] = &node{labels: item.Metadata.Labels}
		}
	}
	for _, item := range list.Items {
		if on := nodes[item.Spec.NodeName]; item.Kind == "Pod" && on != nil {
			on.pods++
		}
	}
	return nodes, nil
}
