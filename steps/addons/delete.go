package addons

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// unregisterStep unregisters the addons of a deleted configuration.
type unregisterStep struct{ *Runtime }

// Do does nothing, because Apply needs only data of the store.
func (s *unregisterStep) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

// Apply unregisters the addons of the configuration, deletes its record, and drops its rounds.
func (s *unregisterStep) Apply(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
	id := identityOf(t)
	lost, err := s.dropDamaged(tx, id)
	if err != nil {
		return nil, err
	}
	freed, err := registry.Withdraw(tx, scopeOf(id), id.Name)
	if err != nil {
		return nil, err
	}
	s.settled(tx, id, time.Time{})
	if freed || lost {
		return []graph.Fact{addons.IDsFreed}, nil
	}
	return nil, nil
}

// reprocessStep requests that the other failed configurations of a scope are processed again. Each of its items is
// one failed configuration.
type reprocessStep struct{ *Runtime }

// incremented is the data of the effect of reprocessStep.
type incremented struct {
	UID types.UID `json:"uid"`
	// Before is the value of reprocessRequest before the increment.
	Before int64 `json:"before"`
}

// Items returns the failed configurations of the scope, except the configuration of the task. Configurations that are
// being processed need no request, because they check for conflicts after this transaction.
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

// Do reads the configuration. If the configuration does not exist or is being deleted, the outcome requests no
// effect.
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

// Effect increments spec.reprocessRequest of the configuration. It does nothing if an earlier attempt has already
// incremented the field.
func (s *reprocessStep) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	var of incremented
	if err := json.Unmarshal(e.Data, &of); err != nil {
		return workflow.Refused(err)
	}
	return s.acceptRejection(ctx, t, s.Configurations.Reprocess(ctx, identityOf(t), of.UID, of.Before))
}

// acceptRejection decides whether the step fails because of err, the result of a write. If the API server has rejected
// the write, for example because of an admission policy, acceptRejection stores the reason as the note of the task and
// returns nil. So a rejection for one configuration does not prevent the deletion of another. If err is anything else,
// acceptRejection returns err.
func (s *reprocessStep) acceptRejection(ctx context.Context, t workflow.Task, err error) error {
	if !isRejected(err) {
		return err
	}
	return s.DB.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		return store.SaveNote(tx, t.ID, registry.Cut(err.Error(), longestRejection))
	})
}

// longestRejection is the maximum length in bytes of a stored error of the API server.
const longestRejection = 1 << 10

// isRejected reports whether err means that the API server has rejected the content or the object of a request, and
// would reject it again.
func isRejected(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}

// Apply adds the reason of a rejection to the history.
func (s *reprocessStep) Apply(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
	rejection, rejected, err := store.LoadNote[string](tx, t.ID)
	if rejected {
		t.Remark("warning: spec.reprocessRequest was not incremented, because the API server rejects the change; the configuration is processed again when its spec changes, or after the time in --addons-resync unless that is 0: " + rejection)
	}
	return nil, err
}

// finalizerStep removes the operator's finalizer from a configuration, so that the API server can delete the
// configuration.
type finalizerStep struct{ *Runtime }

// Do requests the removal of the finalizer if the configuration is being deleted and still has the finalizer. Otherwise
// the outcome has no effect, and Do itself releases the contents of dropped rounds.
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

// Effect releases the contents of dropped rounds, and then removes the finalizer.
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
