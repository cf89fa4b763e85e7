package lease

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// heldBy returns a Lease with this holder and this resource version. The Lease is valid for 20 s after a renewal. The
// time of the last renewal is in 1970, as if the clock of the holder were wrong.
func heldBy(holder, version string) *coordinationv1.Lease {
	seconds, renewed := int32(20), metav1.NewMicroTime(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}

func TestALeaseIsFreeWhenItWasNotRenewedForItsDuration(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	w := waiter{lease: &Lease{options: Options{Identity: "me", Duration: 35 * time.Second, Clock: func() time.Time { return now }}}}
	unlimited := heldBy("other", "9")
	unlimited.Spec.LeaseDurationSeconds = nil
	for _, step := range []struct {
		name   string
		passed time.Duration
		lease  *coordinationv1.Lease
		want   bool
	}{
		{"no Lease", 0, nil, true},
		{"own Lease", 0, heldBy("me", "1"), true},
		{"released Lease", 0, heldBy("", "1"), true},
		{"Lease of another", 0, heldBy("other", "2"), false},
		{"same version, shortly before the end", 20*time.Second - 1, heldBy("other", "2"), false},
		{"renewed", 0, heldBy("other", "3"), false},
		{"not renewed again", 20*time.Second - 1, heldBy("other", "3"), false},
		{"at the end", 1, heldBy("other", "3"), true},
		{"renewed late", 0, heldBy("other", "4"), false},
		{"without a duration", 0, unlimited, false},
		{"after the duration of the others", 20 * time.Second, unlimited, false},
		{"after the own duration", 15 * time.Second, unlimited, true},
	} {
		now = now.Add(step.passed)
		if got := w.free(step.lease); got != step.want {
			t.Errorf("%s: free %t, want %t", step.name, got, step.want)
		}
	}
}

func TestANamespaceThatDoesNotExistIsNoLeaseOfAnotherProcess(t *testing.T) {
	t.Parallel()
	leases, read := coordinationv1.Resource("leases"), heldBy("", "1")
	for name, test := range map[string]struct {
		current *coordinationv1.Lease
		err     error
		want    bool
	}{
		"changed since it was read":    {read, apierrors.NewConflict(leases, Name, nil), true},
		"deleted since it was read":    {read, apierrors.NewNotFound(leases, Name), true},
		"created in the meantime":      {nil, apierrors.NewAlreadyExists(leases, Name), true},
		"namespace that is missing":    {nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "typo"), false},
		"no right to write":            {read, apierrors.NewForbidden(leases, Name, nil), false},
		"API server without an answer": {nil, errors.New("no route"), false},
	} {
		if got := isTaken(test.current, test.err); got != test.want {
			t.Errorf("%s: taken %t, want %t", name, got, test.want)
		}
	}
}

func TestWaitingIsReportedWhenTheHolderOrTheErrorChanges(t *testing.T) {
	t.Parallel()
	var reports []string
	w := waiter{lease: &Lease{options: Options{Waiting: func(h Holder, err error) { reports = append(reports, fmt.Sprint(h.Identity, " ", err)) }}}}
	for range 2 {
		w.report(heldBy("a", "1"), nil)
		w.report(heldBy("a", "2"), nil)
		w.report(heldBy("b", "3"), nil)
		w.report(nil, errors.New("no route"))
		w.report(heldBy("b", "3"), errors.New("no route"))
	}
	want := []string{"a <nil>", "b <nil>", " no route", "a <nil>", "b <nil>", " no route"}
	if !slices.Equal(reports, want) {
		t.Errorf("got %q, want %q", reports, want)
	}
	silent := waiter{lease: &Lease{}}
	silent.report(heldBy("a", "1"), nil) // must not panic although the option Waiting is nil
}

func TestAProgramThatWritesNoAnnotationsIsForeign(t *testing.T) {
	t.Parallel()
	acquired, term := metav1.NewMicroTime(time.Now()), int32(3)
	for name, test := range map[string]struct {
		annotation *string
		acquired   bool
		term       *int32
		want       bool
	}{
		"new Lease":                          {nil, false, nil, false},
		"acquired without annotations":       {nil, true, &term, true},
		"acquired by an operator":            {new("3"), true, &term, false},
		"acquired by another program then":   {new("2"), true, &term, true},
		"acquired without a number then":     {new("2"), true, nil, true},
		"damaged annotation":                 {new("x"), true, &term, true},
		"first acquired without a number":    {new("0"), true, nil, false},
		"annotation on a Lease without time": {new("3"), false, &term, false},
	} {
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseTransitions: test.term}}
		if test.acquired {
			l.Spec.AcquireTime = &acquired
		}
		if test.annotation != nil {
			l.Annotations = map[string]string{TermAnnotation: *test.annotation}
		}
		if got := foreign(l); got != test.want {
			t.Errorf("%s: foreign %t, want %t", name, got, test.want)
		}
	}
}

func TestAHolderIsReadFromALeaseAndPrinted(t *testing.T) {
	t.Parallel()
	l := heldBy("pod-1", "7")
	if got := holderOf(l); got.Identity != "pod-1" || !got.Renewed.Equal(l.Spec.RenewTime.Time) || got.Store != "" || got.Epoch != 0 {
		t.Errorf("got %+v", got)
	}
	l.Annotations = map[string]string{StoreAnnotation: "s", EpochAnnotation: "12"}
	if got, want := holderOf(l).String(), "pod-1 (last epoch 12 of store s)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l.Annotations[EpochAnnotation] = "many"
	if got := holderOf(l); got.Epoch != 0 {
		t.Errorf("a damaged epoch is %d", got.Epoch)
	}
	for want, h := range map[string]Holder{"nobody": {}, "pod-1": {Identity: "pod-1"}, "nobody (last epoch 3 of store s)": {Store: "s", Epoch: 3}} {
		if got := h.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := holderOf(nil); got != (Holder{}) {
		t.Errorf("no Lease has the holder %+v", got)
	}
}
