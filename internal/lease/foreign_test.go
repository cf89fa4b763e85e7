package lease

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// TestALeaseOfAnotherProgramWithoutAnnotationsIsMarkedAndReleased takes over a Lease that this program has never held. The API
// server returns no annotations until Mark has written them, because it does not keep an empty map.
func TestALeaseOfAnotherProgramWithoutAnnotationsIsMarkedAndReleased(t *testing.T) {
	t.Parallel()
	acquired := metav1.NewMicroTime(time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC))
	stored := heldBy("", "1")
	stored.APIVersion, stored.Kind, stored.Name, stored.UID = "coordination.k8s.io/v1", "Lease", Name, "1"
	stored.Spec.AcquireTime = &acquired
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			stored = new(coordinationv1.Lease)
			if err := json.NewDecoder(r.Body).Decode(stored); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if err := json.NewEncoder(w).Encode(stored); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	l, err := New(Options{
		Config:    &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}},
		Namespace: "ops", Identity: "me", Clock: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	previous, err := l.Acquire(t.Context())
	if err != nil || !previous.Foreign {
		t.Fatalf("the previous holder is %+v, %v", previous, err)
	}
	if err := l.Mark(t.Context(), "store", 7); err != nil {
		t.Fatal(err)
	}
	if h := holderOf(stored); h.Store != "store" || h.Epoch != 7 || h.Ended != 0 || foreign(stored) {
		t.Errorf("the Lease is %+v", stored)
	}
	if err := l.Release(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if h := holderOf(stored); h.Identity != "" || h.Store != "store" || h.Epoch != 7 || h.Ended != 7 {
		t.Errorf("the released Lease is %+v", stored)
	}
}
