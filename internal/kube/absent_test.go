package kube_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
)

// absences is a running Absences. The channel delivered gets one element for each successful call of its function
// deliver.
type absences struct {
	*kube.Absences
	delivered chan string
	refuse    chan error // each error that is sent to this channel makes one call of deliver fail
	logs      *logs
}

// failed reports whether the observer has received an error whose message contains text.
func (a *absences) failed(text string) bool {
	a.logs.mu.Lock()
	defer a.logs.mu.Unlock()
	return slices.ContainsFunc(a.logs.failed, func(err error) bool { return strings.Contains(err.Error(), text) })
}

func (s *fixture) absences(t testing.TB) *absences {
	t.Helper()
	a := &absences{delivered: make(chan string, 100), refuse: make(chan error, 10), logs: &logs{}}
	kinds := kube.NewKinds(s.client, kube.Observer{})
	a.Absences = kube.NewAbsences(kinds, "made=yes", func(_ context.Context, release string, absent []kube.Ref) error {
		select {
		case err := <-a.refuse:
			return err
		default:
		}
		names := []string{}
		for _, ref := range absent {
			names = append(names, ref.Name)
		}
		a.delivered <- release + ": " + strings.Join(names, " ")
		return nil
	}, a.logs.observer())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kinds.Run(ctx) })
	running.Go(func() { a.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return a
}

func (a *absences) next(t testing.TB) string {
	t.Helper()
	select {
	case delivered := <-a.delivered:
		return delivered
	case <-time.After(90 * time.Second):
		t.Fatal("no absent object was delivered")
		return ""
	}
}

// quiet fails the test if anything is delivered within 200 ms.
func (a *absences) quiet(t testing.TB) {
	t.Helper()
	select {
	case delivered := <-a.delivered:
		t.Fatalf("delivered %q", delivered)
	case <-time.After(200 * time.Millisecond):
	}
}

func (s *fixture) refs(names ...string) []kube.Ref {
	var refs []kube.Ref
	for _, name := range names {
		refs = append(refs, kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.namespace, Name: name})
	}
	return refs
}

func TestAnAbsentObjectIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.absences(t)
	s.create(t, "one")
	s.create(t, "two")
	s.create(t, "foreign")
	s.create(t, "last")
	a.Register("nginx", s.refs("one", "two"))
	a.Register("other", s.refs("never", "last"))
	if got := a.next(t); got != "other: never" {
		t.Errorf("delivered %q", got)
	}
	a.quiet(t)
	s.delete(t, "foreign")
	deleted := time.Now()
	s.delete(t, "one")
	if got := a.next(t); got != "nginx: one" {
		t.Errorf("delivered %q", got)
	}
	t.Logf("delivered after %v", time.Since(deleted))
	s.create(t, "one")
	s.delete(t, "one")
	if got := a.next(t); got != "nginx: one" {
		t.Errorf("delivered %q when it was absent again", got)
	}
	a.Unregister("nginx")
	s.delete(t, "two")
	s.delete(t, "last") // when its absence is delivered, the watch has also delivered the deletion of "two"
	got := a.next(t)
	if got == "nginx: one" { // "one" was absent before its creation and after its deletion, so it may be delivered twice
		got = a.next(t)
	}
	if got != "other: last" {
		t.Fatalf("delivered %q", got)
	}
	a.quiet(t)
	a.refuse <- errors.New("the disk is full")
	a.Register("nginx", s.refs("one", "two"))
	if got := a.next(t); got != "nginx: one two" {
		t.Errorf("delivered %q when it was registered again", got)
	}
	a.quiet(t)
}

func TestAnObjectThatLosesItsLabelsIsNotAbsent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.absences(t)
	one := s.create(t, "one")
	a.Register("nginx", s.refs("one"))
	a.quiet(t)
	one.Labels = nil
	if _, err := s.api.CoreV1().ConfigMaps(s.namespace).Update(t.Context(), one, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.quiet(t)
}

func TestObjectsOfAKindThatIsNotServedAreNotAbsent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.absences(t)
	ref := kube.Ref{APIVersion: s.group() + "/v1", Kind: "Doodad", Namespace: s.namespace, Name: "one"}
	a.Register("nginx", append(s.refs("never"), ref))
	if got := a.next(t); got != "nginx: never" {
		t.Errorf("delivered %q", got)
	}
	a.quiet(t)
	s.define(t, "Doodad")
	if got := a.next(t); got != "nginx: one" {
		t.Errorf("delivered %q when the kind was served", got)
	}
}

func TestWhatMayNotBeWatchedIsSaidAndNotTakenForAbsent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	a := fixtureOf(t, config, s.namespace).absences(t)
	a.Register("nginx", s.refs("one"))
	eventually(t, "the refusal to be said", func() bool { return a.failed("cannot list resource \"configmaps\"") })
	a.quiet(t)
}

func TestAbsentObjectsAreReportedWhileAnotherKindIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, unavailable := range map[string]func(path string) bool{
		"its lookup fails": func(path string) bool { return strings.HasSuffix(path, ".example.com/v1") },
		"a read fails":     func(path string) bool { return strings.HasSuffix(path, "/doodads/one") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			resource := s.define(t, "Doodad")
			s.awaitKind(t, resource.GroupVersion().String(), "Doodad")
			asked := make(chan struct{}, 1)
			a := fixtureOf(t, answering(s.config, func(path string) int {
				if !unavailable(path) {
					return 0
				}
				select {
				case asked <- struct{}{}:
				default:
				}
				return http.StatusServiceUnavailable
			}), s.namespace).absences(t)
			doodad := kube.Ref{APIVersion: resource.GroupVersion().String(), Kind: "Doodad", Namespace: s.namespace, Name: "one"}
			a.Register("doodads", []kube.Ref{doodad})
			<-asked
			a.Register("nginx", append([]kube.Ref{doodad}, s.refs("never")...))
			if got := a.next(t); got != "nginx: never" {
				t.Errorf("delivered %q", got)
			}
		})
	}
}
