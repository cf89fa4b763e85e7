package kube_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/kube"
)

func TestUpdateChangesOnlyWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	cm := s.client.ConfigMap(s.namespace, "operator")
	if content, err := cm.Read(t.Context()); err != nil || content.Exists || content.Data != nil {
		t.Fatalf("before it exists: %+v, %v", content, err)
	}
	if content, err := cm.Update(t.Context(), func(map[string]string) error { return nil }); err != nil || content.Exists {
		t.Fatalf("altering nothing made %+v, %v", content, err)
	}
	made, err := cm.Update(t.Context(), func(data map[string]string) error {
		data["global"], data["nginx"] = "a: 1\n", "b: 2\n"
		return nil
	})
	if err != nil || !made.Exists || made.ResourceVersion == "" {
		t.Fatalf("made %+v, %v", made, err)
	}
	object, err := s.api.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "operator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Annotations, object.BinaryData = map[string]string{"by": "people"}, map[string][]byte{"raw": {1}}
	if _, err := s.api.CoreV1().ConfigMaps(s.namespace).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	changed, err := cm.Update(t.Context(), func(data map[string]string) error {
		delete(data, "nginx")
		data["global"] = "a: 2\n"
		return nil
	})
	if err != nil || !maps.Equal(changed.Data, map[string]string{"global": "a: 2\n"}) {
		t.Errorf("changed to %+v, %v", changed, err)
	}
	object, err = s.api.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "operator", metav1.GetOptions{})
	if err != nil || object.Annotations["by"] != "people" || len(object.BinaryData) != 1 {
		t.Errorf("what people wrote became %+v, %v", object, err)
	}
	for _, field := range object.ManagedFields {
		if field.Manager != "addon-operator" && field.Manager != "Go-http-client" && field.Manager != filepath.Base(os.Args[0]) {
			t.Errorf("fields are managed by %q", field.Manager)
		}
	}
	same, err := cm.Update(t.Context(), func(map[string]string) error { return nil })
	if err != nil || same.ResourceVersion != changed.ResourceVersion {
		t.Errorf("altering nothing made version %s of %s, %v", same.ResourceVersion, changed.ResourceVersion, err)
	}
	failure := errors.New("no")
	if _, err := cm.Update(t.Context(), func(map[string]string) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("the error of a change became %v", err)
	}
}

func TestDataThatOnlyTheOperatorHasWrittenIsToldFromDataOfOthers(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	objects := s.api.CoreV1().ConfigMaps(s.namespace)
	operator := func(name string) error {
		_, err := s.client.ConfigMap(s.namespace, name).Update(t.Context(), func(data map[string]string) error {
			data["global"] += "\n" // other data in each call
			return nil
		})
		return err
	}
	person := func(name string) error {
		patch := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}, "data": {"webEnabled": "true"}}`, name)
		_, err := objects.Patch(t.Context(), name, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"})
		return err
	}
	labels := func(name string) error {
		_, err := objects.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata": {"labels": {"data": "b"}}}`), metav1.PatchOptions{FieldManager: "kubectl"})
		return err
	}
	for name, c := range map[string]struct {
		writers []func(string) error
		want    bool
	}{
		"absent":               {nil, false},
		"of-the-operator":      {[]func(string) error{operator, operator}, true},
		"labelled-by-a-person": {[]func(string) error{operator, labels}, true},
		"of-a-person":          {[]func(string) error{person}, false},
		"changed-by-a-person":  {[]func(string) error{operator, person}, false},
		"changed-by-a-hook":    {[]func(string) error{person, operator}, false},
	} {
		for _, write := range c.writers {
			if err := write(name); err != nil {
				t.Fatal(err)
			}
		}
		if content, err := s.client.ConfigMap(s.namespace, name).Read(t.Context()); err != nil || content.OnlyOwn != c.want {
			t.Errorf("%s: %+v, %v; want %t", name, content, err, c.want)
		}
	}
}

func TestWritersOfOneConfigMapLoseNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	const writers = 5
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			for {
				_, err := s.client.ConfigMap(s.namespace, "operator").Update(t.Context(), func(data map[string]string) error {
					data[fmt.Sprint(i)] = "written"
					return nil
				})
				if err == nil {
					return
				}
				if !kube.IsRefused(err) { // otherwise each attempt had a conflict, and the loop tries again
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	content, err := s.client.ConfigMap(s.namespace, "operator").Read(t.Context())
	if err != nil || len(content.Data) != writers {
		t.Errorf("in the end it holds %v, %v", content.Data, err)
	}
}

func TestAWriteThatMeetsAConflictIsTriedOnWhatIsThere(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.create(t, "operator", "mine", "1")
	cm := s.client.ConfigMap(s.namespace, "operator")
	calls := 0
	content, err := cm.Update(t.Context(), func(data map[string]string) error {
		switch calls++; calls {
		case 1:
			s.update(t, "operator", "mine", "1", "theirs", "1")
		case 2:
			s.delete(t, "operator")
		}
		data["mine"] = fmt.Sprintf("beside %d", len(data))
		return nil
	})
	if err != nil || calls != 3 || !maps.Equal(content.Data, map[string]string{"mine": "beside 0"}) {
		t.Errorf("after %d calls it holds %v, %v", calls, content.Data, err)
	}
	calls = 0
	_, err = cm.Update(t.Context(), func(data map[string]string) error {
		calls++
		s.update(t, "operator", "round", fmt.Sprint(calls))
		data["mine"] = "2"
		return nil
	})
	if !kube.IsRefused(err) || !apierrors.IsConflict(err) || calls < 2 {
		t.Errorf("after %d conflicts: %v", calls, err)
	}
}

func TestWhatTheServerWillNotDoIsRefused(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, err := s.client.ConfigMap(s.namespace, "operator").Update(t.Context(), func(data map[string]string) error {
		data["not a key"] = "1"
		return nil
	})
	if !kube.IsRefused(err) {
		t.Errorf("an invalid key: %v", err)
	}
	_, err = s.client.ConfigMap("no-such-namespace", "operator").Update(t.Context(), func(data map[string]string) error {
		data["key"] = "1"
		return nil
	})
	if !kube.IsRefused(err) {
		t.Errorf("a namespace that is not there: %v", err)
	}
	away := s.client.Config()
	away.Host, away.TLSClientConfig.ServerName = "https://127.0.0.1:1", ""
	_, err = fixtureOf(t, away, s.namespace).client.ConfigMap(s.namespace, "operator").Read(t.Context())
	if err == nil || kube.IsRefused(err) {
		t.Errorf("a server that is away: %v", err)
	}
}

func TestTheConfigMapIsToldAtFirstAndWhenItsDataChanges(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	contents := make(chan kube.Content)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- s.client.ConfigMap(s.namespace, "operator").Watch(ctx, kube.Observer{}, func(_ context.Context, c kube.Content) error {
			contents <- c
			return nil
		})
	}()
	if c := <-contents; c.Exists || c.AbsentAt == "" {
		t.Errorf("at first: %+v", c)
	}
	s.create(t, "operator", "a", "1")
	program := filepath.Base(os.Args[0]) // the field manager that client-go sets if a request names none
	if c := <-contents; !c.Exists || c.Data["a"] != "1" || c.ResourceVersion == "" || c.Manager != program {
		t.Errorf("created: %+v", c)
	}
	object, err := s.api.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "operator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Labels = nil // not delivered, because the data do not change
	if _, err := s.api.CoreV1().ConfigMaps(s.namespace).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.update(t, "operator", "a", "2")
	if c := <-contents; c.Data["a"] != "2" {
		t.Errorf("updated: %+v", c)
	}
	if _, err := s.client.ConfigMap(s.namespace, "operator").Update(t.Context(), func(data map[string]string) error {
		data["a"] = "3"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	last := <-contents
	if c := last; c.Data["a"] != "3" || c.AbsentAt != "" || !slices.Contains(strings.Split(c.Manager, " or "), "addon-operator") {
		t.Errorf("updated by the operator: %+v", c)
	}
	s.delete(t, "operator")
	if c := <-contents; c.Exists || !kube.After(c.AbsentAt, last.ResourceVersion) {
		t.Errorf("deleted: %+v, after version %s", c, last.ResourceVersion)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
