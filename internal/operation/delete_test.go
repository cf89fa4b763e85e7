package operation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/operation"
)

// owned creates two ConfigMaps. The argument owner is the name of the first one, which owns the
// second one. The argument name is the name of the second one.
func (s *fixture) owned(owner, name string) {
	s.t.Helper()
	o := s.made(configMaps, strings.ReplaceAll(configMapA, "name: a", "name: "+owner))
	s.made(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: `+name+`, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: `+owner+
		`, uid: `+string(o.GetUID())+`, blockOwnerDeletion: true}]}}`)
}

func TestDeletesDifferInWhatBecomesOfWhatAnObjectOwns(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	cluster.Start(t).AwaitGarbageCollector(t, s.namespace)
	s.owned("a", "of-a")
	s.do(`{"operation":"Delete","kind":"ConfigMap","namespace":"NS","name":"a"}`)
	if !s.gone(configMaps, "a") || !s.gone(configMaps, "of-a") {
		t.Error("Delete came back before both were gone")
	}
	s.owned("b", "of-b")
	s.do(`{"operation":"DeleteInBackground","kind":"ConfigMap","namespace":"NS","name":"b"}`)
	if !s.gone(configMaps, "b") {
		t.Error("DeleteInBackground left it")
	}
	eventually(t, "the owned object to go", func() bool { return s.gone(configMaps, "of-b") })
	s.owned("c", "of-c")
	s.do(`{"operation":"DeleteNonCascading","kind":"ConfigMap","namespace":"NS","name":"c"}`)
	eventually(t, "the object to go", func() bool { return s.gone(configMaps, "c") })
	if len(s.get(configMaps, "of-c").GetOwnerReferences()) > 0 {
		t.Error("the remaining object still names its owner")
	}
}

func TestDeletingWhatIsMissingIsNoError(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, kind := range []string{"Delete", "DeleteInBackground", "DeleteNonCascading"} {
		s.do(`{"operation":"` + kind + `","kind":"ConfigMap","namespace":"NS","name":"none"}`)
		s.do(`{"operation":"` + kind + `","kind":"ConfigMap","namespace":"no-such-namespace","name":"none"}`)
	}
	if s.noted == nil || s.noted.UID != "" {
		t.Errorf("noted %+v", s.noted)
	}
}

func TestDeleteThatFoundNothingLeavesWhatWasMadeSince(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	const remove = `{"operation":"Delete","kind":"ConfigMap","namespace":"NS","name":"a"}`
	s.do(remove)
	s.made(configMaps, configMapA)
	if err := s.try(remove, s.resend(s.noted)); err != nil || s.gone(configMaps, "a") {
		t.Errorf("gone %t, %v", s.gone(configMaps, "a"), err)
	}
}

const held = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, finalizers: [example.com/held]}}`

func TestDeleteWaitsUntilTheObjectIsGone(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(configMaps, held)
	done := make(chan error, 1)
	remove := s.parse(`{"operation":"Delete","kind":"ConfigMap","namespace":"NS","name":"a"}`)
	go func() { done <- s.executor.Do(context.Background(), remove, s.attempt()) }()
	eventually(t, "the delete to begin", func() bool { return s.get(configMaps, "a").GetDeletionTimestamp() != nil })
	select {
	case err := <-done:
		t.Fatalf("it came back with %v while the object was there", err)
	case <-time.After(300 * time.Millisecond):
	}
	s.patch(configMaps, "a", `{"metadata":{"finalizers":null}}`)
	began := time.Now()
	if err := <-done; err != nil || !s.gone(configMaps, "a") {
		t.Error(err)
	}
	if took := time.Since(began); took > 45*time.Second { // the deletion waits for up to 90 s
		t.Errorf("it came back %s after the object was gone", took)
	}
}

func TestDeleteOfWhatIsHeldIsRefusedInTheEndAndNamesWhatHoldsIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(configMaps, held)
	t.Cleanup(func() { s.patch(configMaps, "a", `{"metadata":{"finalizers":null}}`) })
	for patience := 300 * time.Millisecond; ; patience *= 2 {
		operation.Impatient(s.executor, patience)
		err := s.try(`{"operation":"Delete","kind":"ConfigMap","namespace":"NS","name":"a"}`, s.attempt())
		if err == nil || !operation.IsRefused(err) {
			t.Fatalf("want a refusal, got %v", err)
		}
		still := fmt.Sprintf("still there after %s", patience)
		if strings.Contains(err.Error(), still+", held by its finalizers: example.com/held") {
			break
		}
		// The finalizers may be missing only if the object could not be read in this time.
		if !strings.HasSuffix(err.Error(), still) || patience > time.Minute {
			t.Fatal(err)
		}
	}
	s.do(`{"operation":"DeleteInBackground","kind":"ConfigMap","namespace":"NS","name":"a"}`)
}

func TestADeleteThatIsStoppedIsNoRefusal(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(configMaps, held)
	t.Cleanup(func() { s.patch(configMaps, "a", `{"metadata":{"finalizers":null}}`) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := s.executor.Do(ctx, s.parse(`{"operation":"Delete","kind":"ConfigMap","namespace":"NS","name":"a"}`), s.attempt())
	if !errors.Is(err, context.DeadlineExceeded) || operation.IsRefused(err) {
		t.Error(err)
	}
}

func TestADeleteDoneBeforeACrashSparesWhatHasTakenTheName(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(configMaps, configMapA)
	remove := `{"operation":"DeleteInBackground","kind":"ConfigMap","namespace":"NS","name":"a"}`
	s.do(remove)
	if s.noted == nil || s.noted.UID == "" || s.noted.Object.String() != "ConfigMap.v1 "+s.namespace+"/a" {
		t.Fatalf("noted %+v", s.noted)
	}
	s.made(configMaps, configMapA)
	if err := s.try(remove, s.resend(s.noted)); err != nil || s.gone(configMaps, "a") {
		t.Errorf("the new one is deleted, or %v", err)
	}
	mark := operation.Mark{UID: string(s.get(configMaps, "a").GetUID())}
	if err := s.try(remove, s.resend(&mark)); err != nil || !s.gone(configMaps, "a") {
		t.Errorf("the one that was noted is still there, or %v", err)
	}
}

func TestDeleteOfANamespaceThatIsBeingDeletedIsNoError(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.do(`{"operation":"DeleteInBackground","kind":"ns","name":"NS"}`)
	s.do(`{"operation":"DeleteInBackground","kind":"ns","name":"NS"}`)
	s.do(`{"operation":"Delete","kind":"ns","name":"NS"}`)
}
