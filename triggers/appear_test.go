package triggers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

var hookPods = graph.Subject{Module: "m", Hook: "hooks/h", Binding: "pods"}

// stop makes the receiver fail after the engine has raised events the given number of times, as if
// the process had ended. The function goOn makes the receiver work again.
func (d *testReceiver) stop(pieces int) (goOn func()) {
	engine := d.engine
	d.engine = raiserFunc(func(tx *store.Tx, events ...workflow.Event) error {
		if pieces--; pieces < 0 {
			return errors.New("the process ends")
		}
		return engine.Raise(tx, events...)
	})
	return func() { d.engine = engine }
}

func manyPods() (objects []*kube.Object) {
	for i := range 2007 {
		objects = append(objects, pod(fmt.Sprintf("p%05d", i), 1, "x"))
	}
	return objects
}

func (d *testReceiver) appeared(objects []*kube.Object) error {
	return d.Listed(d.t.Context(), kube.List{View: label, Cause: kube.Appeared, Owners: us, Version: "50", Objects: objects})
}

func TestBindingsKnowOfAViewWhenAllOfItWasTold(t *testing.T) {
	for name, known := range map[string]bool{"the view is known": true, "the view is new": false} {
		t.Run(name, func(t *testing.T) {
			d, objects := newTestReceiver(t), manyPods()
			if known {
				if err := d.Listed(t.Context(), kube.List{View: label, Cause: kube.First, Version: "10", Objects: objects}); err != nil {
					t.Fatal(err)
				}
			}
			goOn := d.stop(2)
			if err := d.appeared(objects); err == nil {
				t.Fatal("the process did not end")
			}
			if len(d.delivered) == 0 || len(d.delivered) == len(objects) || d.knows(label, hookPods, 0) {
				t.Fatalf("%d of %d objects were delivered, known: %t", len(d.delivered), len(objects), d.knows(label, hookPods, 0))
			}
			goOn()
			d.delivered = nil
			if err := d.appeared(objects); err != nil {
				t.Fatal(err)
			}
			if len(d.delivered) != len(objects) || !d.knows(label, hookPods, 0) {
				t.Errorf("%d of %d objects were delivered, known: %t", len(d.delivered), len(objects), d.knows(label, hookPods, 0))
			}
			if d.knows(label, hookPods, 1) {
				t.Error("a binding that was attached again is recorded as an owner of the cursor")
			}
			d.delivered = nil
			d.changed("60", kube.Change{Type: kube.Deleted, Object: objects[0]})
			d.want("Deleted p00000@1")
		})
	}
}

func TestWhatIsGoneSinceATellingWasInterruptedIsTold(t *testing.T) {
	d, objects := newTestReceiver(t), manyPods()
	goOn := d.stop(2)
	if err := d.appeared(objects); err == nil {
		t.Fatal("the process did not end")
	}
	goOn()
	d.delivered = nil
	again := pod("p00001", 40, "x")
	again.UID = "another"
	if err := d.appeared([]*kube.Object{again}); err != nil {
		t.Fatal(err)
	}
	if n := len(d.delivered); n < 3 || d.delivered[0] != "Deleted p00000@" || d.delivered[1] != "Deleted p00001@" || d.delivered[n-1] != "Added p00001@40" {
		t.Errorf("delivered %d: %.100q", n, d.delivered)
	}
}

// The size of the events decides where each piece of the delivery ends. With different sizes, pieces end at different
// points of the delivery of an object to two bindings. Each binding must get the deletions of the objects that were
// delivered to it before.
func TestDeletionsSinceAnInterruptedDeliveryOfLargeObjectsAreDelivered(t *testing.T) {
	for size := 4000; size < 12000; size += 500 {
		d := newTestReceiver(t)
		d.attachLate("")
		if err := deleteCursor(t.Context(), d.db, label); err != nil {
			t.Fatal(err)
		}
		var objects []*kube.Object
		for i := range 3000 {
			o := pod(fmt.Sprintf("p%05d", i), 1, "x")
			o.FilterResult = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
			objects = append(objects, o)
		}
		list := kube.List{View: label, Cause: kube.Appeared, Owners: append([]string{late}, us...), Version: "50", Objects: objects}
		goOn := d.stop(2)
		if err := d.Listed(t.Context(), list); err == nil {
			t.Fatal("the process did not end")
		}
		var want []string
		for _, text := range d.delivered {
			text = strings.TrimSuffix(text, "1")
			want = append(want, strings.Replace(text, "Added", "Deleted", 1))
		}
		goOn()
		d.delivered, list.Objects = nil, nil
		if err := d.Listed(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 || !slices.Equal(d.delivered, want) {
			t.Errorf("with %d bytes in each object, %d events were delivered before, and %d deletions after the interruption", size, len(want), len(d.delivered))
		}
	}
}

func TestThoseWhoJoinAViewKnowOfIt(t *testing.T) {
	d := newTestReceiver(t)
	if err := d.Listed(t.Context(), kube.List{View: label, Cause: kube.First, Version: "10"}); err != nil {
		t.Fatal(err)
	}
	if d.knows(label, hookPods, 0) {
		t.Error("a binding that has not joined is recorded as an owner of the cursor")
	}
	d.listed(kube.Joined, "20", pod("a", 1, "x"))
	d.want()
	if !d.knows(label, hookPods, 0) || d.stored(label) != "10" {
		t.Errorf("known: %t, the version is %s", d.knows(label, hookPods, 0), d.stored(label))
	}
}

// A view can be listed for the first time while the cursors of unused views are deleted. The cursor
// of this view must not be deleted.
func TestCursorsOfViewsThatAreSeenDuringASweepStay(t *testing.T) {
	for name, forget := range map[string]func(d *testReceiver, meanwhile func()) error{
		"sweep": func(d *testReceiver, meanwhile func()) error {
			return d.sweep(d.t.Context(), func() ([]kube.View, bool) { meanwhile(); return nil, true })
		},
		"a monitor that is closed": func(d *testReceiver, meanwhile func()) error {
			return d.forget(d.t.Context(), label, func() (bool, error) { meanwhile(); return false, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []bool{false, true} {
				d := newTestReceiver(t)
				if before {
					d.listed(kube.First, "5", pod("a", 1, "x"))
				}
				joined := make(chan error, 1)
				err := forget(d, func() {
					go func() { // as a watch does
						stored, err := d.Stored(t.Context(), label)
						if err == nil && stored == "" {
							err = d.Listed(t.Context(), kube.List{View: label, Cause: kube.First, Owners: us, Version: "10", Objects: []*kube.Object{pod("a", 1, "x")}})
						}
						joined <- err
					}()
					time.Sleep(20 * time.Millisecond) // gives the goroutine time to run
				})
				if err := errors.Join(err, <-joined); err != nil {
					t.Fatal(err)
				}
				d.changed("20", kube.Change{Type: kube.Deleted, Object: pod("a", 11, "x")})
				d.want("Deleted a@11")
			}
		})
	}
}
