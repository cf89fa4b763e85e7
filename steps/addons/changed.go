package addons

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// changedStep decides whether a configuration must be processed, or must be unregistered because it is deleted. If the
// configuration needs neither, changedStep restores its status and its finalizer.
type changedStep struct{ *Runtime }

// readConfiguration has what Do has read: fields of the configuration, whether it has the annotation for modules, and
// the checksum of the names of modules in the image; see [Runtime.Image]. The outcome and its effects contain this data
// as JSON.
type readConfiguration struct {
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	Created    time.Time `json:"created"`
	Modules    bool      `json:"modules,omitempty"`
	Image      string    `json:"image,omitempty"`
}

// The kinds of effects of changedStep.
const (
	addFinalizer = "add finalizer"
	clearStatus  = "clear status"
)

// Do reads the configuration and decides whether it must be processed. It needs no processing if this generation is
// Ready, or if it has failed and no attempt is due. In both cases, the configuration is nevertheless processed if the
// set of its addons that conflict with modules of the image has changed.
func (s *changedStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	id := identityOf(t)
	live, exists, err := s.Configurations.Get(ctx, id)
	if err != nil {
		return out, err
	}
	if !exists || live.DeletionTimestamp != nil {
		out.Facts, out.Detail = []graph.Fact{addons.Deleted}, "it is being deleted"
		if !exists {
			out.Detail = "it is gone"
		}
		return out, nil
	}
	known, results, err := s.results(id)
	if err != nil {
		return out, err
	}
	isKnown := known.UID != ""
	image, err := s.imageModules(id, live.IsMarkedForModules())
	if err != nil {
		return out, err
	}
	read := readConfiguration{
		UID: live.UID, Generation: live.Generation, Created: live.CreationTimestamp.Time,
		Modules: live.IsMarkedForModules(), Image: image.Digest(),
	}
	if out.Data, err = json.Marshal(read); err != nil {
		return out, err
	}
	if out.Detail = needsNoRound(known, live, s.DB.Now()); out.Detail != "" && !image.Changes(results) {
		if out.Effects = restorations(known, live, out.Data); len(out.Effects) > 0 {
			out.Detail += "; its status or its finalizer is restored"
		}
		return out, nil
	}
	out.Facts, out.Detail = []graph.Fact{addons.Wanted}, fmt.Sprintf("generation %d", live.Generation)
	if !slices.Contains(live.Finalizers, api.Finalizer) {
		out.Effects = append(out.Effects, workflow.Effect{Kind: addFinalizer, Data: out.Data})
	}
	// If the store was lost, a status Ready is kept until the configuration has been processed again.
	if isKnown || !isReady(live) {
		out.Effects = append(out.Effects, workflow.Effect{Kind: clearStatus, Data: out.Data})
	}
	return out, nil
}

// needsNoRound returns the reason why the configuration need not be processed, or "" if it must be.
func needsNoRound(known store.Configuration, live *api.Configuration, now time.Time) string {
	switch {
	case known.UID != string(live.UID) || known.Generation != live.Generation:
		return ""
	case known.Phase == store.PhaseReady:
		return "it is Ready"
	case known.Phase == store.PhaseFailed && known.Retry.IsZero():
		return "it failed; it is processed again when it changes"
	case known.Phase == store.PhaseFailed && now.Before(known.Retry):
		return "it failed; it is processed again at " + known.Retry.UTC().Format(time.RFC3339)
	}
	return ""
}

// restorations returns the effects that restore the finalizer and the status of a configuration whose latest round has
// ended. The argument data is the data of the effects.
func restorations(known store.Configuration, live *api.Configuration, data json.RawMessage) (effects []workflow.Effect) {
	if !slices.Contains(live.Finalizers, api.Finalizer) {
		effects = append(effects, workflow.Effect{Kind: addFinalizer, Data: data})
	}
	if string(live.Status.Phase) != string(known.Phase) || live.Status.ObservedGeneration != known.Generation {
		effects = append(effects, workflow.Effect{Kind: writeStatus, Data: data})
	}
	return effects
}

// isReady reports whether the status says that the current generation is Ready.
func isReady(c *api.Configuration) bool {
	return c.Status.Phase == api.Ready && c.Status.ObservedGeneration == c.Generation
}

// Effect adds the finalizer, sets the status to Pending, or restores the status.
func (s *changedStep) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	var read readConfiguration
	if err := json.Unmarshal(e.Data, &read); err != nil {
		return workflow.Refused(err)
	}
	id := identityOf(t)
	switch e.Kind {
	case addFinalizer:
		return s.Configurations.AddFinalizer(ctx, id, read.UID)
	case writeStatus:
		return s.writeStatus(ctx, id)
	}
	now := metav1.NewTime(s.DB.Now())
	// It is no error if the configuration was deleted in the meantime, because the next step of the graph detects
	// this.
	_, err := s.Configurations.WriteStatus(ctx, id, read.UID, api.Status{
		Phase: api.Pending, LastProcessedTime: &now, ObservedGeneration: read.Generation,
	})
	return err
}

// Skipped plans another attempt as postpone does, because the state of the configuration remains unknown.
func (s *changedStep) Skipped(tx *store.Tx, t workflow.Task) error { return s.postpone(tx, t) }

// Apply begins a round if the configuration must be processed. If an earlier configuration with the same name was
// deleted and its addons are still registered, or if the record of the configuration cannot be read, Apply unregisters
// the addons.
func (s *changedStep) Apply(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	if len(out.Data) == 0 {
		return nil, nil
	}
	var read readConfiguration
	if err := json.Unmarshal(out.Data, &read); err != nil {
		return nil, err
	}
	id := identityOf(t)
	if !slices.Contains(out.Facts, addons.Wanted) {
		return nil, errors.Join(s.planAgain(tx, id), registry.ProvideModules(tx, scopeOf(id), id.Name, read.Modules, read.Image))
	}
	lost, err := s.dropDamaged(tx, id)
	if err != nil {
		return nil, err
	}
	_, freed, err := registry.Begin(tx, registry.Owner{
		Scope: scopeOf(id), Name: id.Name, UID: string(read.UID), Generation: read.Generation, Created: read.Created,
		Modules: read.Modules, Image: read.Image,
	})
	if err != nil || !freed && !lost {
		return nil, err
	}
	return []graph.Fact{addons.IDsFreed}, nil
}

// planAgain plans the next attempt at a failed configuration again. The event of this attempt may have been raised
// already. If the clock was set back since then, the attempt is not due any more.
func (s *changedStep) planAgain(tx *store.Tx, id api.Identity) error {
	known, _, err := registry.Lookup(tx, scopeOf(id), id.Name)
	if err == nil && known.Phase == store.PhaseFailed && !known.Retry.IsZero() {
		s.settled(tx, id, known.Retry)
	}
	return err
}
