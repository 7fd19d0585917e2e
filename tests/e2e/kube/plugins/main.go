// Plugins runs kube-scheduler's own plugins over clusters, so that a test can compare Placet with them.
//
// Each line of the standard input is a world: the JSON of namespaces, nodes, pods, and the pod to place. Each
// line of the output has what every plugin says of every node: whether its Filter lets the pod go there, and
// the score from 0 to 100. Plugins run one by one and over all nodes; kube-scheduler asks the next plugin only
// about the nodes that are left.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

type world struct {
	Namespaces []*v1.Namespace `json:"namespaces"`
	Nodes      []*v1.Node      `json:"nodes"`
	Pods       []*v1.Pod       `json:"pods"`
	Pod        *v1.Pod         `json:"pod"`
	// The plugins that judge it; without it, all of them.
	Plugins []string `json:"plugins"`
}

// The verdicts and the scores, by plugin and node. A plugin that skips the pod passes every node and scores none.
type answer struct {
	Filters map[string]map[string]bool  `json:"filters"`
	Scores  map[string]map[string]int64 `json:"scores"`
}

type factory = func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)

type plugin struct {
	name    string
	create  factory
	args    runtime.Object
	filters bool
	scores  bool
}

func fit(strategy config.ScoringStrategyType) *config.NodeResourcesFitArgs {
	return &config.NodeResourcesFitArgs{
		ScoringStrategy: &config.ScoringStrategy{Type: strategy, Resources: resources()},
	}
}

func resources() []config.ResourceSpec {
	return []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
}

// The arguments are kube-scheduler's defaults.
var plugins = []plugin{
	{"NodeUnschedulable", nodeunschedulable.New, nil, true, false},
	{"TaintToleration", tainttoleration.New, nil, true, true},
	{"NodeAffinity", nodeaffinity.New, &config.NodeAffinityArgs{}, true, true},
	{"NodePorts", nodeports.New, nil, true, false},
	{"NodeResourcesFit", noderesources.NewFit, fit(config.LeastAllocated), true, false},
	{"LeastAllocated", noderesources.NewFit, fit(config.LeastAllocated), false, true},
	{"MostAllocated", noderesources.NewFit, fit(config.MostAllocated), false, true},
	{"BalancedAllocation", noderesources.NewBalancedAllocation,
		&config.NodeResourcesBalancedAllocationArgs{Resources: resources()}, false, true},
	{"PodTopologySpread", podtopologyspread.New,
		&config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, true, true},
	{"InterPodAffinity", interpodaffinity.New, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}, true, true},
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "plugins:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	metrics.Register()
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(in)
	for decoder.More() {
		var given world
		if err := decoder.Decode(&given); err != nil {
			return err
		}
		found, err := judge(ctx, given)
		if err != nil {
			return err
		}
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return nil
}

func judge(ctx context.Context, given world) (*answer, error) {
	known := map[string]bool{}
	for _, node := range given.Nodes {
		known[node.Name] = true
	}
	var pods []*v1.Pod
	for _, pod := range given.Pods {
		// kube-scheduler does not watch pods that have ended. Its snapshot has the pods on nodes that it knows.
		if known[pod.Spec.NodeName] && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			pods = append(pods, pod)
		}
	}
	snapshot := cache.NewSnapshot(pods, given.Nodes)
	handle, err := handleOver(ctx, snapshot, given.Namespaces)
	if err != nil {
		return nil, err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	found := &answer{Filters: map[string]map[string]bool{}, Scores: map[string]map[string]int64{}}
	for _, each := range plugins {
		if len(given.Plugins) > 0 && !slices.Contains(given.Plugins, each.name) {
			continue
		}
		created, err := each.create(ctx, each.args, handle, features)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", each.name, err)
		}
		if each.filters {
			if found.Filters[each.name], err = filter(ctx, created, given.Pod, nodes); err != nil {
				return nil, fmt.Errorf("%s: %w", each.name, err)
			}
		}
		if each.scores {
			if found.Scores[each.name], err = score(ctx, created, given.Pod, nodes); err != nil {
				return nil, fmt.Errorf("%s: %w", each.name, err)
			}
		}
	}
	return found, nil
}

// handleOver is what plugins see of the scheduler. Its informers are filled here; nothing connects to a server.
func handleOver(ctx context.Context, snapshot *cache.Snapshot, namespaces []*v1.Namespace) (fwk.Handle, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	known := shared.Core().V1().Namespaces().Informer().GetIndexer()
	for _, namespace := range namespaces {
		if err := known.Add(namespace); err != nil {
			return nil, err
		}
	}
	return frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(shared))
}

func filter(ctx context.Context, created fwk.Plugin, pod *v1.Pod, nodes []fwk.NodeInfo) (map[string]bool, error) {
	state := framework.NewCycleState()
	passes := make(map[string]bool, len(nodes))
	var among *fwk.PreFilterResult
	if before, ok := created.(fwk.PreFilterPlugin); ok {
		result, status := before.PreFilter(ctx, state, pod, nodes)
		if status.IsSkip() || status.IsRejected() {
			for _, node := range nodes {
				passes[node.Node().Name] = status.IsSkip()
			}
			return passes, nil
		}
		if !status.IsSuccess() {
			return nil, status.AsError()
		}
		among = result
	}
	for _, node := range nodes {
		name := node.Node().Name
		status := created.(fwk.FilterPlugin).Filter(ctx, state, pod, node)
		if !status.IsSuccess() && !status.IsRejected() {
			return nil, status.AsError()
		}
		passes[name] = status.IsSuccess() && (among.AllNodes() || among.NodeNames.Has(name))
	}
	return passes, nil
}

func score(ctx context.Context, created fwk.Plugin, pod *v1.Pod, nodes []fwk.NodeInfo) (map[string]int64, error) {
	state := framework.NewCycleState()
	scorer := created.(fwk.ScorePlugin)
	scores := make(map[string]int64, len(nodes))
	if before, ok := created.(fwk.PreScorePlugin); ok {
		status := before.PreScore(ctx, state, pod, nodes)
		if status.IsSkip() {
			return scores, nil
		}
		if !status.IsSuccess() {
			return nil, status.AsError()
		}
	}
	list := make(fwk.NodeScoreList, 0, len(nodes))
	for _, node := range nodes {
		given, status := scorer.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			return nil, status.AsError()
		}
		list = append(list, fwk.NodeScore{Name: node.Node().Name, Score: given})
	}
	if extensions := scorer.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
			return nil, status.AsError()
		}
	}
	for _, each := range list {
		scores[each.Name] = each.Score
	}
	return scores, nil
}
