// Command requests adds kube-scheduler's own sums to a JSON list of cases: [{"name", "pod"}] on standard input
// comes out as [{"name", "pod", "requests", "limits"}].
//
// It fills tests/contract/pod_resources.json, with the options that kube-scheduler 1.36 passes by default.
// Add a case there without sums and run `go run ./requests < ../../contract/pod_resources.json`, which
// prints the file anew.
package main

import (
	"encoding/json"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

type testCase struct {
	Name     string              `json:"name"`
	Pod      json.RawMessage     `json:"pod"`
	Requests corev1.ResourceList `json:"requests"`
	Limits   corev1.ResourceList `json:"limits"`
}

func main() {
	var cases []testCase
	check(json.NewDecoder(os.Stdin).Decode(&cases))
	options := resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}
	for i := range cases {
		var pod corev1.Pod
		check(json.Unmarshal(cases[i].Pod, &pod))
		cases[i].Requests = resource.PodRequests(&pod, options)
		cases[i].Limits = resource.PodLimits(&pod, options)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	check(encoder.Encode(cases))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
