package kube_test

import (
	"context"
	"testing"
	"time"

	"addon-operator/internal/kube"
)

func TestNotifierReportsOnlyChangesOfFilterResults(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	delivered := make(chan struct{}, 100)
	l := kube.NewNotifier(s.client, kube.Observer{}, func() { delivered <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	view := func(name string) kube.View {
		return kube.View{
			Source: kube.Source{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: s.namespace, Names: name},
			Filter: ".data.a",
		}
	}
	happens := func(what string, want bool) {
		t.Helper()
		patience := 90 * time.Second
		if !want {
			patience = 300 * time.Millisecond
		}
		select {
		case <-delivered:
			if !want {
				t.Errorf("the notifier was called for %s", what)
			}
		case <-time.After(patience):
			if want {
				t.Fatalf("the notifier was not called for %s", what)
			}
		}
	}
	write := func(name, key, value string) {
		t.Helper()
		if _, err := s.client.ConfigMap(s.namespace, name).Update(t.Context(), func(data map[string]string) error {
			data[key] = value
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Follow(view("one")); err != nil {
		t.Fatal(err)
	}
	happens("the first list", true)
	write("one", "a", "1")
	happens("an object that comes", true)
	write("one", "b", "1")
	happens("a change that the filter does not show", false)
	write("one", "a", "2")
	happens("a change that the filter shows", true)
	if err := l.Follow(view("two")); err != nil {
		t.Fatal(err)
	}
	happens("the first list of another object", true)
	write("one", "a", "3")
	happens("a change of an object that is not followed any more", false)
	if err := l.Follow(kube.View{Source: view("two").Source, Filter: "no filter"}); err == nil {
		t.Error("an invalid filter is accepted")
	}
	write("two", "a", "1")
	happens("a change of an object that is still followed", true)
}
