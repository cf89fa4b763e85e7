package addons

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// unregisterStep unregisters the addons of a configuration that is deleted, whatever its status says.
type unregisterStep struct{ *Runtime }

// Do has nothing to find out.
func (s *unregisterStep) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

// Apply deletes all that the store knows of the configuration.
func (s *unregisterStep) Apply(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
	id := identityOf(t)
	freed, err := registry.Withdraw(tx, scopeOf(id), id.Name)
	if err != nil {
		return nil, err
	}
	s.settled(tx, id, time.Time{})
	if freed {
		return []graph.Fact{addons.IDsFreed}, nil
	}
	return nil, nil
}

// reprocessStep has failed configurations of the scope processed again, one an item.
type reprocessStep struct{ *Runtime }

// incremented is the data of its effect.
type incremented struct {
	UID types.UID `json:"uid"`
	// Before is the reprocessRequest that is incremented.
	Before int64 `json:"before"`
}

// Items returns the failed configurations of the scope. Those that are being processed look for conflicts
// after this transaction.
func (s *reprocessStep) Items(tx *store.Tx, t workflow.Task) (items []graph.Item, note json.RawMessage, err error) {
	id := identityOf(t)
	for c, err := range registry.ConfigurationsIn(tx, scopeOf(id)) {
		if err != nil {
			return nil, nil, err
		}
		if c.Phase == store.PhaseFailed && c.Name != id.Name {
			other := api.Identity{Namespace: id.Namespace, Name: c.Name}
			items = append(items, graph.Item{Subject: graph.Subject{Configuration: other.String()}})
		}
	}
	return items, nil, nil
}

// Do reads the configuration. One that is gone or being deleted is left alone.
func (s *reprocessStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	live, exists, err := s.Configurations.Get(ctx, identityOf(t))
	switch {
	case err != nil:
		return out, err
	case !exists || live.DeletionTimestamp != nil:
		out.Detail = "it is being deleted"
		return out, nil
	}
	data, err := json.Marshal(incremented{UID: live.UID, Before: live.Spec.ReprocessRequest})
	out.Effects = []workflow.Effect{{Kind: "increment reprocessRequest", Data: data}}
	return out, err
}

// Effect increments reprocessRequest once.
func (s *reprocessStep) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	var of incremented
	if err := json.Unmarshal(e.Data, &of); err != nil {
		return workflow.Refused(err)
	}
	return s.Configurations.Reprocess(ctx, identityOf(t), of.UID, of.Before)
}

// finalizerStep lets the API server delete a configuration.
type finalizerStep struct{ *Runtime }

// Do has the finalizer removed, if the configuration is still there and has it.
func (s *finalizerStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	live, exists, err := s.Configurations.Get(ctx, identityOf(t))
	if err != nil {
		return out, err
	}
	if !exists || live.DeletionTimestamp == nil || !slices.Contains(live.Finalizers, api.Finalizer) {
		return out, registry.Sweep(ctx, s.DB)
	}
	data, err := json.Marshal(live.UID)
	out.Effects = []workflow.Effect{{Kind: "remove finalizer", Data: data}}
	return out, err
}

// Effect removes the finalizer.
func (s *finalizerStep) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	var uid types.UID
	if err := json.Unmarshal(e.Data, &uid); err != nil {
		return workflow.Refused(err)
	}
	if err := registry.Sweep(ctx, s.DB); err != nil {
		return err
	}
	return s.Configurations.RemoveFinalizer(ctx, identityOf(t), uid)
}
