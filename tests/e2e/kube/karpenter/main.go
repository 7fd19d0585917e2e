// Karpenter says which groups of nodes it would make a node of, for a pod.
//
// Each line of the standard input has the JSON of a pod and the labels of the groups, by name. Each line of the
// output has the names of the groups that fit, as a list. Karpenter tries the required terms of node affinity one
// after the other, as its relaxation of preferences does.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

type question struct {
	Pod    *v1.Pod                      `json:"pod"`
	Groups map[string]map[string]string `json:"groups"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

func run() error {
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	for decoder.More() {
		var asked question
		if err := decoder.Decode(&asked); err != nil {
			return err
		}
		fitting := []string{}
		for name, labels := range asked.Groups {
			if fits(asked.Pod, labels) {
				fitting = append(fitting, name)
			}
		}
		slices.Sort(fitting)
		if err := out.Encode(fitting); err != nil {
			return err
		}
	}
	return nil
}

func fits(pod *v1.Pod, labels map[string]string) bool {
	group := scheduling.NewLabelRequirements(labels)
	for _, alternative := range alternatives(pod) {
		if group.IsCompatible(scheduling.NewStrictPodRequirements(alternative)) {
			return true
		}
	}
	return false
}

// alternatives are the pod with each of its required terms alone.
func alternatives(pod *v1.Pod) []*v1.Pod {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return []*v1.Pod{pod}
	}
	var found []*v1.Pod
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		made := pod.DeepCopy()
		made.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms =
			[]v1.NodeSelectorTerm{term}
		found = append(found, made)
	}
	return found
}
