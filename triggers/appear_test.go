package triggers

import (
	"errors"
	"fmt"
	"slices"
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

// appeared delivers a list with the cause Appeared, and also one with the cause Resumed if the owner is behind.
func (d *testReceiver) appeared(objects []*kube.Object) error {
	list := kube.List{View: label, Cause: kube.Appeared, Owners: us, Version: "50", Objects: objects}
	if err := d.Listed(d.t.Context(), list); err != nil {
		return err
	}
	behind, err := d.Behind(d.t.Context(), label, us)
	if err != nil || !behind {
		return err
	}
	list.Cause = kube.Resumed
	return d.Listed(d.t.Context(), list)
}

func TestEachObjectOfAViewThatAppearedIsDelivered(t *testing.T) {
	for name, known := range map[string]bool{"the view is known": true, "the view is new": false} {
		t.Run(name, func(t *testing.T) {
			d, objects := newTestReceiver(t), manyPods()
			if known {
				d.listedForNobody(objects)
			}
			goOn := d.stop(2)
			if err := d.appeared(objects); err == nil {
				t.Fatal("the process did not end")
			}
			n := len(d.delivered)
			if n == 0 || n == len(objects) {
				t.Fatalf("%d of %d objects were delivered", n, len(objects))
			}
			goOn()
			if d.knows(label, hookPods, 0) != known {
				t.Errorf("the cursor knows the binding: %t", !known)
			}
			if !known { // delivers all objects again
				n, d.delivered = 0, nil
			}
			if err := d.appeared(objects); err != nil {
				t.Fatal(err)
			}
			if len(d.delivered) != len(objects) || !d.knows(label, hookPods, 0) {
				t.Errorf("%d of %d objects were delivered, %d at first; known: %t", len(d.delivered), len(objects), n, d.knows(label, hookPods, 0))
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

// listedForNobody delivers the first list of the view to no owner.
func (d *testReceiver) listedForNobody(objects []*kube.Object) {
	d.t.Helper()
	if err := d.Listed(d.t.Context(), kube.List{View: label, Cause: kube.First, Version: "10", Objects: objects}); err != nil {
		d.t.Fatal(err)
	}
}

func TestDeletionsAfterAnInterruptedDeliveryOfAViewThatAppearedAreDelivered(t *testing.T) {
	for name, known := range map[string]bool{"the view is known": true, "the view is new": false} {
		t.Run(name, func(t *testing.T) {
			d, objects := newTestReceiver(t), manyPods()
			if known {
				d.listedForNobody(objects)
			}
			goOn := d.stop(2)
			if err := d.appeared(objects); err == nil {
				t.Fatal("the process did not end")
			}
			added := slices.Clone(d.delivered)
			goOn()
			d.delivered = nil
			again := pod("p00001", 40, "x")
			again.UID = "another"
			if err := d.appeared([]*kube.Object{again}); err != nil {
				t.Fatal(err)
			}
			if n := len(d.delivered); n != len(added)+1 || d.delivered[0] != "Deleted p00000@" || !slices.Contains(d.delivered, "Deleted p00001@") || d.delivered[n-1] != "Added p00001@40" {
				t.Errorf("%d objects were delivered before, and then %d: %.100q", len(added), n, d.delivered)
			}
		})
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
