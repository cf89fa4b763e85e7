// Command collect is a hook of module images, written in Go. It lists the container images that Deployments use, for the
// module's chart, and says in a metric how many containers use each.
package main

import (
	"context"
	"maps"
	"slices"

	"addon-operator/sdk"
)

func main() { sdk.Main(hook()) }

// workload is what the jqFilter makes of a Deployment.
type workload struct {
	Images []string `json:"images"`
}

func hook() sdk.Hook {
	return sdk.Hook{
		Config: sdk.Config{
			BeforeHelm: new(10),
			Kubernetes: []sdk.Kubernetes{{
				Name:                         "deployments",
				APIVersion:                   "apps/v1",
				Kind:                         "Deployment",
				JqFilter:                     "{images: [.spec.template.spec.containers[].image]}",
				KeepFullObjectsInMemory:      new(false),
				ExecuteHookOnSynchronization: new(false), // beforeHelm comes first, and sees all of them
				IncludeSnapshotsFrom:         []string{"deployments"},
				Queue:                        "images",
			}},
		},
		Run: collect,
	}
}

// collect is run before Helm, and when the images of a Deployment change.
func collect(_ context.Context, r *sdk.Run) error {
	workloads, err := sdk.Snapshot[workload](r, "deployments")
	if err != nil {
		return err
	}
	containers := map[string]int{}
	for _, w := range workloads {
		for _, image := range w.Images {
			containers[image]++
		}
	}
	used := slices.AppendSeq([]string{}, maps.Keys(containers)) // never nil, which would be null
	slices.Sort(used)
	r.Values.Set("images.used", used)

	metrics := r.Metrics.Group("images")
	metrics.Expire() // so that images that nobody uses any more lose their metrics
	for image, n := range containers {
		metrics.Set("containers_by_image", float64(n), map[string]string{"image": image})
	}
	r.Log.Info("images are collected", "deployments", len(workloads), "images", len(containers))
	return nil
}
