package addons

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/api"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// statusStep writes the status of a round that has ended.
type statusStep struct{ *Runtime }

const writeStatus = "write status"

// Do has the status written, unless the configuration was changed or deleted meanwhile.
func (s *statusStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	id := identityOf(t)
	live, exists, err := s.Configurations.Get(ctx, id)
	if err != nil {
		return out, err
	}
	known, _, err := s.record(id)
	if err != nil {
		return out, err
	}
	if !exists || isOutdated(known, live) {
		return workflow.Outcome{Facts: []graph.Fact{addons.Newer}, Detail: "not written, as it was changed meanwhile"}, nil
	}
	out.Detail = string(known.Phase)
	out.Effects = []workflow.Effect{{Kind: writeStatus}}
	return out, nil
}

// Effect writes the status as the store has it.
func (s *statusStep) Effect(ctx context.Context, t workflow.Task, _ workflow.Effect) error {
	id := identityOf(t)
	known, results, err := s.results(id)
	if err != nil {
		return err
	}
	status := statusOf(known, results)
	now := metav1.NewTime(known.Processed)
	status.LastProcessedTime = &now
	_, err = s.Configurations.WriteStatus(ctx, id, types.UID(known.UID), fit(status))
	return err
}

// The limits of a status. The API server stores objects of up to 1.5 MiB.
const (
	largestStatus = 1 << 20
	shortMessage  = 200
)

// fit shortens a status that the API server could not store: first its messages, then its lists of addons, of
// which those that failed are kept longest.
func fit(status api.Status) api.Status {
	if sizeOf(status) <= largestStatus {
		return status
	}
	for i := range status.Repositories {
		for j := range status.Repositories[i].Addons {
			addon := &status.Repositories[i].Addons[j]
			if len(addon.Message) > shortMessage {
				addon.Message = strings.ToValidUTF8(addon.Message[:shortMessage], "") + "…"
			}
		}
	}
	if sizeOf(status) <= largestStatus {
		return status
	}
	room := largestStatus / max(1, len(status.Repositories))
	for i := range status.Repositories {
		repository := &status.Repositories[i]
		all := len(repository.Addons)
		slices.SortStableFunc(repository.Addons, func(a, b api.AddonStatus) int { return strings.Compare(string(a.Status), string(b.Status)) })
		for sizeOf(*repository) > room && len(repository.Addons) > 0 {
			repository.Addons = repository.Addons[:len(repository.Addons)*3/4]
		}
		if left := all - len(repository.Addons); left > 0 {
			repository.Message = strings.TrimSpace(fmt.Sprintf("%s (%d of %d addons are not listed, as the status would be too large)",
				repository.Message, left, all))
		}
	}
	return status
}

// sizeOf returns how many bytes v is as JSON.
func sizeOf[T api.Status | api.RepositoryStatus](v T) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 0 // the write of the status fails with the same error
	}
	return len(text)
}
