package addons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/api"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

var resource = schema.GroupResource{Group: api.Group, Resource: "clusteraddonsconfigurations"}

func TestOnlyAFinalAnswerOfTheAPIServerIsARejection(t *testing.T) {
	t.Parallel()
	denied := errors.New("admission webhook denied the request")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a policy":               {apierrors.NewForbidden(resource, "two", denied), true},
		"the schema":             {apierrors.NewInvalid(schema.GroupKind{Kind: api.ClusterKind}, "two", nil), true},
		"a webhook":              {apierrors.NewBadRequest("denied"), true},
		"no kind any more":       {apierrors.NewNotFound(resource, "two"), true},
		"an expired token":       {apierrors.NewUnauthorized("expired"), false},
		"another writer":         {apierrors.NewConflict(resource, "two", denied), false},
		"an overloaded server":   {apierrors.NewTooManyRequests("later", 1), false},
		"an unavailable webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"a broken connection":    {errors.New("connection refused"), false},
	} {
		if got := isRejected(fmt.Errorf("patch two: %w", c.err)); got != c.want {
			t.Errorf("%s: rejected %t, want %t", name, got, c.want)
		}
	}
}

// rejected replaces reprocessStep by a step whose writes the API server rejects.
type rejected struct{ fixtureReprocess }

func (s *rejected) Effect(ctx context.Context, t workflow.Task, _ workflow.Effect) error {
	return s.acceptRejection(ctx, t, apierrors.NewForbidden(resource, t.Subject.Configuration, errors.New("denied by a policy")))
}

func TestADeletionEndsThoughAnotherConfigurationCannotBeChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFixture(t)
		a.replace = func(steps map[graph.NodeID]workflow.Step) {
			steps[addons.ReprocessFailed] = &rejected{fixtureReprocess{reprocessStep{a.r}, a}}
		}
		a.start()
		defer a.stop()
		for _, name := range []string{"one", "two"} {
			a.apply(name, []string{"X"})
			a.raise(name)
		}
		a.apply("one", nil)
		a.raise("one")
		var details []string
		if err := a.r.DB.View(func(tx *store.Tx) error {
			_, busy, err := store.Head(tx, graph.Subject{Configuration: "one"}.Queue())
			if busy {
				t.Error("the deletion has not ended")
			}
			for k := range tx.Range(store.At(store.History)) {
				record, _, err := store.Load[store.Record](tx, k)
				if err != nil {
					return err
				}
				if graph.NodeID(record.Node) == addons.ReprocessFailed && record.Detail != "" {
					details = append(details, record.Detail)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		phases, _ := a.phases()
		if diff := cmp.Diff(map[string]store.Phase{"two": store.PhaseFailed}, phases); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(details) != 1 || !strings.HasPrefix(details[0], "warning: spec.reprocessRequest was not incremented, because the API server rejects the change; ") || !strings.HasSuffix(details[0], "denied by a policy") {
			t.Errorf("the history has %q, want one warning", details)
		}
	})
}
