package addons

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/failure"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// statusStep writes the result of a round that has ended to the status of the configuration.
type statusStep struct{ *Runtime }

const writeStatus = "write status"

// Do requests the effect that writes the status. If the configuration was changed or deleted after the round began,
// Do returns the fact [addons.Newer] instead.
func (s *statusStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	id := identityOf(t)
	known, results, err := s.results(id)
	if err != nil {
		return out, err
	}
	live, err := s.unchanged(ctx, id, known)
	if err != nil {
		return out, err
	}
	if live == nil {
		return workflow.Outcome{Facts: []graph.Fact{addons.Newer}, Detail: "not written, because the configuration has changed"}, nil
	}
	if out.Detail = string(known.Phase); known.Phase == store.PhaseFailed {
		out.Warning = out.Detail + ": " + failure.Of(results).Summary(id)
	}
	out.Effects = []workflow.Effect{{Kind: writeStatus}}
	return out, nil
}

// Effect writes the status.
func (s *statusStep) Effect(ctx context.Context, t workflow.Task, _ workflow.Effect) error {
	return s.writeStatus(ctx, identityOf(t))
}

// writeStatus computes the status of a configuration from the results in the store and writes it. If the store has no
// record of the configuration, writeStatus does nothing. If the API server rejects the status as too large, writeStatus
// writes a shorter one.
func (r *Runtime) writeStatus(ctx context.Context, id api.Identity) error {
	known, results, err := r.results(id)
	if err != nil || known.UID == "" { // without a record, the next round writes the status
		return err
	}
	status := statusOf(known, results)
	now := metav1.NewTime(known.Processed)
	status.LastProcessedTime = &now
	for room := largestStatus; ; room /= 2 {
		_, err = r.Configurations.WriteStatus(ctx, id, types.UID(known.UID), fit(status, room))
		if !isTooLarge(err) || room <= smallestStatus {
			return err
		}
	}
}

// isTooLarge reports whether err means that the object is too large for the API server or for etcd.
func isTooLarge(err error) bool {
	return err != nil && (apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), "request is too large") || // an answer of etcd
		strings.Contains(err.Error(), "message larger than max")) // the API server did not send the object to etcd
}

// The sizes in bytes to which a status is shortened: the first one that is tried, and the smallest one. By default,
// etcd accepts objects of up to 1.5 MiB.
const (
	largestStatus  = 1 << 20
	smallestStatus = 16 << 10
)

// fit shortens a status until its length in bytes is at most room, if possible. It first shortens the messages of
// addons, then the lists of addons, and finally the texts and the list of repositories. In a list of addons, it
// removes ready addons first.
func fit(status api.Status, room int) api.Status {
	if sizeOf(status) <= room {
		return status
	}
	status.Repositories = slices.Clone(status.Repositories)
	for i := range status.Repositories {
		repository := &status.Repositories[i]
		repository.Addons = slices.Clone(repository.Addons)
		for j := range repository.Addons {
			repository.Addons[j].Message = failure.Shorten(repository.Addons[j].Message)
		}
	}
	if sizeOf(status) <= room {
		return status
	}
	each := room / max(1, len(status.Repositories))
	for i := range status.Repositories {
		fitAddons(&status.Repositories[i], each)
	}
	if sizeOf(status) <= room {
		return status
	}
	for i := range status.Repositories {
		repository := &status.Repositories[i]
		repository.URL, repository.Message = failure.Shorten(repository.URL), failure.Shorten(repository.Message)
	}
	all := len(status.Repositories)
	for sizeOf(status) > room && len(status.Repositories) > 1 {
		status.Repositories = status.Repositories[:max(1, len(status.Repositories)*3/4)]
	}
	if left := all - len(status.Repositories); left > 0 {
		last := &status.Repositories[len(status.Repositories)-1]
		last.Message = strings.TrimSpace(fmt.Sprintf("%s (%d more repositories are not listed, because the status would be too large)", last.Message, left))
	}
	return status
}

// fitAddons shortens the list of addons of a repository until the JSON of the repository has at most room bytes, or
// until the list is empty. If addons are left out, the message of the repository says how many.
func fitAddons(repository *api.RepositoryStatus, room int) {
	all := len(repository.Addons)
	slices.SortStableFunc(repository.Addons, func(a, b api.AddonStatus) int { return strings.Compare(string(a.Status), string(b.Status)) })
	for sizeOf(*repository) > room && len(repository.Addons) > 0 {
		repository.Addons = repository.Addons[:len(repository.Addons)*3/4]
	}
	if left := all - len(repository.Addons); left > 0 {
		repository.Message = strings.TrimSpace(fmt.Sprintf("%s (%d of %d addons are not listed, because the status would be too large)",
			repository.Message, left, all))
	}
}

// sizeOf returns the size of v as JSON, in bytes.
func sizeOf[T api.Status | api.RepositoryStatus](v T) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 0 // the request that writes the status reports the same error
	}
	return len(text)
}
