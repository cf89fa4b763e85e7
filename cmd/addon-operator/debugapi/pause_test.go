package debugapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"addon-operator/store"
)

// pausable returns an engine whose store has module web with the hook hooks/h, the global hook g, and a binding in
// queue q.
func pausable(t *testing.T) *engineFixture {
	t.Helper()
	w := newEngineFixture(t)
	w.modules(map[string]bool{"web": true})
	if err := w.db.Update(func(tx *store.Tx) error {
		for _, module := range []string{"web", ""} {
			name := map[string]string{"web": "hooks/h", "": "g"}[module]
			if err := store.Save(tx, store.HookKey(module, name), store.Hook{}); err != nil {
				return err
			}
		}
		return store.Save(tx, store.BindingKey("web", "hooks/h", "pods"), store.Binding{Kind: store.Kubernetes, Queue: "q"})
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

// paused returns a text for each pause: the paused work, the person who paused the work, and the reason.
func (w *engineFixture) paused() (what []string) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) error {
		for q, err := range store.QuarantinedItems(tx) {
			if err != nil {
				return err
			}
			what = append(what, strings.Join(q.What(), " ")+", by "+q.Paused.By+": "+q.Paused.Reason)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return what
}

func TestEachKindOfWorkIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, name, said string }{
		{"all", "", "all work"}, {"queue", "q", "queue q"}, {"module", "web", "module web"}, {"hook", "web/hooks/h", "hook web/hooks/h"}, {"hook", "g", "hook g"},
	} {
		t.Run(c.said, func(t *testing.T) {
			t.Parallel()
			w := pausable(t)
			path := "/" + c.kind + "?name=" + url.QueryEscape(c.name)
			if status, text := w.post("/pause" + path + "&reason=repair"); status != http.StatusOK || text != c.said+" paused\n" {
				t.Errorf("pause: status %d, %q", status, text)
			}
			if want := strings.TrimSpace(c.kind+" "+c.name) + ", by alice: repair"; !slices.Equal(w.paused(), []string{want}) {
				t.Errorf("paused: %q, want %q", w.paused(), want)
			}
			if status, text := w.post("/pause" + path + "&reason=again"); status != http.StatusConflict {
				t.Errorf("pause of paused work: status %d, %q", status, text)
			}
			if status, text := w.post("/resume" + path); status != http.StatusOK || text != c.said+" resumed\n" {
				t.Errorf("resume: status %d, %q", status, text)
			}
			if left := w.paused(); len(left) > 0 {
				t.Errorf("still paused: %q", left)
			}
			if status, text := w.post("/resume" + path); status != http.StatusConflict {
				t.Errorf("resume of work that is not paused: status %d, %q", status, text)
			}
		})
	}
}

func TestAPauseOfADeletedHookCanBeResumed(t *testing.T) {
	t.Parallel()
	w := pausable(t)
	if status, text := w.post("/pause/hook?name=g&reason=repair"); status != http.StatusOK {
		t.Fatalf("status %d, %q", status, text)
	}
	if err := w.db.Update(func(tx *store.Tx) error { tx.Delete(store.HookKey("", "g")); return nil }); err != nil {
		t.Fatal(err)
	}
	if status, text := w.post("/resume/hook?name=g"); status != http.StatusOK || len(w.paused()) > 0 {
		t.Errorf("status %d, %q; still paused: %q", status, text, w.paused())
	}
}

func TestAPauseOfADeletedQueueWithASpaceInItsNameCanBeResumed(t *testing.T) {
	t.Parallel()
	w := pausable(t)
	binding := store.BindingKey("web", "hooks/h", "spaced")
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, binding, store.Binding{Kind: store.Kubernetes, Queue: "my queue"})
	}); err != nil {
		t.Fatal(err)
	}
	if status, text := w.post("/pause/queue?name=my+queue&reason=repair"); status != http.StatusOK {
		t.Fatalf("status %d, %q", status, text)
	}
	if err := w.db.Update(func(tx *store.Tx) error { tx.Delete(binding); return nil }); err != nil {
		t.Fatal(err)
	}
	if status, text := w.post("/resume/queue?name=my+queue"); status != http.StatusOK || len(w.paused()) > 0 {
		t.Errorf("status %d, %q; still paused: %q", status, text, w.paused())
	}
}

func TestAPauseSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	w := pausable(t)
	for path, c := range map[string]struct {
		status int
		want   string
	}{
		"/pause/module?name=web":                {http.StatusBadRequest, "needs a reason"},
		"/pause/module?reason=r":                {http.StatusBadRequest, "the name of the module is missing"},
		"/pause/module?name=wed&reason=r":       {http.StatusNotFound, `no module is called "wed"`},
		"/pause/hook?name=hooks%2Fh&reason=r":   {http.StatusNotFound, `there is no hook "hooks/h"`},
		"/pause/queue?name=other&reason=r":      {http.StatusNotFound, `there is no queue "other"`},
		"/pause/release?name=web&reason=repair": {http.StatusNotFound, `there is no kind of work "release"`},
	} {
		if status, text := w.post(path); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: status %d, %q; want %d, %q", path, status, text, c.status, c.want)
		}
	}
	if left := w.paused(); len(left) > 0 {
		t.Errorf("paused: %q", left)
	}
}
