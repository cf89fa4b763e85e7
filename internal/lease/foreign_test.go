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

// leaseOnServer returns a Lease of this process whose API server has the object *stored. The API server returns no
// annotations until they are written, because it does not keep an empty map.
func leaseOnServer(t *testing.T, stored **coordinationv1.Lease) *Lease {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			*stored = new(coordinationv1.Lease)
			if err := json.NewDecoder(r.Body).Decode(*stored); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if err := json.NewEncoder(w).Encode(*stored); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	l, err := New(Options{
		Config:    &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}},
		Namespace: "ops", Identity: "me", Clock: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// released returns the object of a Lease that nobody holds.
func released() *coordinationv1.Lease {
	l := heldBy("", "1")
	l.APIVersion, l.Kind, l.Name, l.UID = "coordination.k8s.io/v1", "Lease", Name, "1"
	return l
}

// TestALeaseOfAnotherProgramWithoutAnnotationsIsMarkedAndReleased takes over a Lease that this program has never held.
func TestALeaseOfAnotherProgramWithoutAnnotationsIsMarkedAndReleased(t *testing.T) {
	t.Parallel()
	acquired := metav1.NewMicroTime(time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC))
	stored := released()
	stored.Spec.AcquireTime = &acquired
	l := leaseOnServer(t, &stored)
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

// TestTheCleanExitOfAnEpochIsForgottenWhenTheNextHolderBegins marks the Lease with epoch 1 of a second store after a
// clean exit of epoch 1 of the first store. Mark must remove the annotation about the clean exit. Otherwise, if the
// second epoch 1 crashed, the second store would be treated as an older copy.
func TestTheCleanExitOfAnEpochIsForgottenWhenTheNextHolderBegins(t *testing.T) {
	t.Parallel()
	stored := released()
	for _, store := range []string{"first", "second"} {
		l := leaseOnServer(t, &stored)
		previous, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := (Holder{Store: "first", Epoch: 1, Ended: 1}); store == "second" {
			if previous.Renewed = want.Renewed; previous.Holder != want {
				t.Errorf("the holder before %s is %+v", store, previous)
			}
		}
		if err := l.Mark(t.Context(), store, 1); err != nil {
			t.Fatal(err)
		}
		if h := holderOf(stored); h.Store != store || h.Ended != 0 {
			t.Errorf("in epoch 1 of %s, the holder is %+v", store, h)
		}
		if err := l.Release(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
}
