package kube_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"addon-operator/internal/kube"
)

// durableReceiver is a receiver that stores deliveries like the operator: it updates the cursor of a view and adds the
// resulting events in one step. A test uses the same durableReceiver for several Watches, one after another, just as
// several processes of the operator use the same store.
type durableReceiver struct {
	mu       sync.Mutex
	moved    chan struct{}
	cursors  map[kube.View]map[string]delivered
	versions map[kube.View]string
	events   []event
	lists    []kube.List
	batches  []kube.Batch
	left     []kube.View
	behind   []string // owners that have missed changes
	refuse   int      // how many of the next calls will fail
}

// delivered is the entry for one object in a cursor.
type delivered struct{ uid, checksum string }

// event is an event that an owner has got.
type event struct {
	owner   string
	change  kube.ChangeType
	filter  string
	object  string
	version string
	raw     string
	result  string
}

func newDurableReceiver() *durableReceiver {
	return &durableReceiver{
		moved: make(chan struct{}), cursors: map[kube.View]map[string]delivered{},
		versions: map[kube.View]string{},
	}
}

func key(o *kube.Object) string { return o.Namespace + "/" + o.Name }

func (k *durableReceiver) Stored(_ context.Context, view kube.View) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cursors[view] == nil {
		return "", nil
	}
	return k.versions[view], nil
}

func (k *durableReceiver) Behind(_ context.Context, _ kube.View, owners []string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(owners, func(name string) bool { return slices.Contains(k.behind, name) }), nil
}

func (k *durableReceiver) Listed(_ context.Context, list kube.List) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail(); err != nil {
		return err
	}
	k.lists = append(k.lists, list)
	known := k.cursors[list.View] != nil
	switch list.Cause {
	case kube.First:
		k.write(list)
	case kube.Appeared:
		for _, o := range list.Objects {
			k.deliver(list.Owners, kube.Added, list.View.Filter, o)
		}
		if !known {
			k.write(list)
		}
	case kube.Gap, kube.Periodic, kube.Resumed:
		k.compare(list)
	case kube.Joined:
	}
	k.wake()
	return nil
}

func (k *durableReceiver) write(list kube.List) {
	cursor := map[string]delivered{}
	for _, o := range list.Objects {
		if !o.Unfiltered {
			cursor[key(o)] = delivered{o.UID, o.Checksum}
		}
	}
	k.cursors[list.View], k.versions[list.View] = cursor, list.Version
}

func (k *durableReceiver) compare(list kube.List) {
	cursor, present := k.cursors[list.View], map[string]bool{}
	for _, o := range list.Objects {
		present[key(o)] = true
		if !o.Unfiltered {
			k.move(cursor, list.Owners, list.View.Filter, o)
		}
	}
	for name, was := range cursor {
		if !present[name] {
			namespace, base, _ := strings.Cut(name, "/")
			k.deliver(list.Owners, kube.Deleted, list.View.Filter, &kube.Object{Namespace: namespace, Name: base, UID: was.uid})
			delete(cursor, name)
		}
	}
	k.versions[list.View] = list.Version
}

// move adds events for each owner if o differs from the object in the cursor, and updates the cursor.
func (k *durableReceiver) move(cursor map[string]delivered, owners []string, filter string, o *kube.Object) {
	was, known := cursor[key(o)]
	if known && was == (delivered{o.UID, o.Checksum}) {
		return
	}
	change := kube.Modified
	if known && was.uid != o.UID {
		k.deliver(owners, kube.Deleted, filter, &kube.Object{Namespace: o.Namespace, Name: o.Name, UID: was.uid})
		known = false
	}
	if !known {
		change = kube.Added
	}
	cursor[key(o)] = delivered{o.UID, o.Checksum}
	k.deliver(owners, change, filter, o)
}

func (k *durableReceiver) Changed(_ context.Context, batch kube.Batch) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail(); err != nil {
		return err
	}
	k.batches = append(k.batches, batch)
	for _, change := range batch.Changes {
		cursor := k.cursors[kube.View{Source: batch.Source, Filter: change.Filter}]
		if cursor == nil {
			panic("a change of a view that was never listed: " + change.Filter)
		}
		if change.Type != kube.Deleted {
			k.move(cursor, change.Owners, change.Filter, change.Object)
		} else if _, known := cursor[key(change.Object)]; known {
			delete(cursor, key(change.Object))
			k.deliver(change.Owners, kube.Deleted, change.Filter, change.Object)
		}
	}
	for _, filter := range batch.Filters {
		k.versions[kube.View{Source: batch.Source, Filter: filter}] = batch.Version
	}
	k.wake()
	return nil
}

func (k *durableReceiver) Left(_ context.Context, view kube.View, _ []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = append(k.left, view)
	delete(k.cursors, view)
	k.wake()
	return nil
}

func (k *durableReceiver) fail() error {
	if k.refuse == 0 {
		return nil
	}
	k.refuse--
	return fmt.Errorf("the disk is full")
}

func (k *durableReceiver) deliver(owners []string, change kube.ChangeType, filter string, o *kube.Object) {
	for _, owner := range owners {
		k.events = append(k.events, event{
			owner, change, filter, key(o), o.ResourceVersion, string(o.Raw), string(o.FilterResult),
		})
	}
}

func (k *durableReceiver) wake() {
	close(k.moved)
	k.moved = make(chan struct{})
}

// until waits until the given function returns true, and fails the test if that takes too long.
func (k *durableReceiver) until(t *testing.T, what string, holds func(k *durableReceiver) bool) {
	t.Helper()
	limit := time.NewTimer(90 * time.Second)
	defer limit.Stop()
	for {
		k.mu.Lock()
		done, moved := holds(k), k.moved
		k.mu.Unlock()
		if done {
			return
		}
		select {
		case <-moved:
		case <-limit.C:
			k.mu.Lock()
			defer k.mu.Unlock()
			var lists []string
			for _, list := range k.lists {
				lists = append(lists, fmt.Sprintf("%s of %s at %s to %s", list.Cause, list.View, list.Version, list.Owners))
			}
			t.Fatalf("timed out waiting for %s\nevents: %q\nlists: %q", what, k.events, lists)
		}
	}
}

// deliveredTo returns the events of an owner, each as the type and the name, for example "Added name".
func (k *durableReceiver) deliveredTo(owner string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deliveredToLocked(owner)
}

func (k *durableReceiver) deliveredToLocked(owner string) []string {
	var found []string
	for _, e := range k.events {
		if e.owner == owner {
			found = append(found, string(e.change)+" "+e.object[strings.Index(e.object, "/")+1:])
		}
	}
	return found
}

func (k *durableReceiver) untilDelivered(t *testing.T, owner string, want ...string) {
	t.Helper()
	k.until(t, fmt.Sprintf("the delivery of %[2]q to %[1]s", owner, want), func(k *durableReceiver) bool {
		return slices.Equal(k.deliveredToLocked(owner), want)
	})
}

// causes returns the causes of all lists that were delivered.
func (k *durableReceiver) causes() []kube.Cause {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []kube.Cause
	for _, list := range k.lists {
		found = append(found, list.Cause)
	}
	return found
}
