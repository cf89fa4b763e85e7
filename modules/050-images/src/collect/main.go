// Command collect is a hook of the module images. It writes the list of the container images of all Deployments to
// the values of the module. It also reports the number of containers with each image as a metric.
package main

import (
	"context"
	"maps"
	"slices"

	"addon-operator/sdk"
)

func main() { sdk.Main(hook()) }

// workload is the result of the jqFilter for a Deployment.
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
				ExecuteHookOnSynchronization: new(false), // a Synchronization is not necessary, because the run for beforeHelm gets all Deployments
				IncludeSnapshotsFrom:         []string{"deployments"},
				Queue:                        "images",
			}},
		},
		Run: collect,
	}
}

// collect runs in each run of the module, before the release check. It also runs when a Deployment is added or deleted,
// or when its images change.
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
	used := slices.AppendSeq([]string{}, maps.Keys(containers)) // not nil, because a nil slice is null in JSON
	slices.Sort(used)
	r.Values.Set("images.used", used)

	metrics := r.Metrics.Group("images")
	metrics.Expire() // removes all metrics of the group, so that an image without containers has no metric
	for image, n := range containers {
		metrics.Set("containers_by_image", float64(n), map[string]string{"image": image})
	}
	r.Log.Info("images are collected", "deployments", len(workloads), "images", len(containers))
	return nil
}
