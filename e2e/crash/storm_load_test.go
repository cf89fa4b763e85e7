package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/typed/core/v1"
)

// A change is one change that a load has made to an object. Event is Added, Modified or Deleted. Name is unique among
// the objects of all loads. Seq is the number of the change among all changes of the object; it is not reset if the
// object is deleted and created again.
type change struct {
	Event, Name string
	Seq         int
	// Version is the resourceVersion of the changed object; empty for a deletion.
	Version string
	// At is the time of the request.
	At time.Time
}

// key returns a text made from the fields of c that a hook receives.
func (c change) key() string { return fmt.Sprintf("%s %s %d", c.Event, c.Name, c.Seq) }

// A load changes the objects of one set.
type load struct {
	set    set
	at     v1.ConfigMapInterface
	random *rand.Rand
	// interval is the time from one change to the next, and most is the maximum number of changes.
	interval time.Duration
	most     int

	// counts is the end of the first converge, or zero if the load begins later. Each change after this time must cause
	// an event. Earlier changes may be delivered by the Synchronization of a hook instead.
	counts time.Time

	next    int
	alive   []string
	deleted []string
	seq     map[string]int
	changes []change
}

// coalesced is the number of pending events of a binding above which the operator coalesces events. The number of
// pending events can exceed it only in sets whose field coalesced is true. In the other sets, each change must be
// delivered.
const coalesced = 1000

func newLoad(s set, at v1.ConfigMapInterface, seed uint64, interval time.Duration) *load {
	l := &load{set: s, at: at, interval: interval, most: coalesced - 1, seq: map[string]int{}}
	if s.coalesced {
		l.most = 1 << 30
	}
	name := uint64(0)
	for _, b := range []byte(s.label) {
		name = name<<8 | uint64(b)
	}
	l.random = rand.New(rand.NewPCG(seed, name))
	return l
}

// run makes changes at regular intervals until ctx ends or l.most changes are made.
func (l *load) run(ctx context.Context) error {
	interval := time.NewTicker(l.interval)
	defer interval.Stop()
	for len(l.changes) < l.most {
		select {
		case <-ctx.Done():
			return nil
		case <-interval.C:
		}
		// When ctx ends, a request that was sent is completed, so that the test knows whether it changed the object.
		if err := l.step(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("load of %s: %w", l.set.label, err)
		}
	}
	return nil
}

// early reports whether the load made c before the end of the first converge.
func (l *load) early(c change) bool { return c.At.Before(l.counts) }

// silentSince reports, for each object of the load, whether the hook of the set may lack the last change of the object.
// The hook may lack the change if it does not run on Synchronization, and the object has not changed since the end of
// the first converge.
func (l *load) silentSince() map[string]bool {
	silent := map[string]bool{}
	for _, c := range l.changes {
		silent[c.Name] = l.set.silent && l.early(c)
	}
	return silent
}

// step makes one change.
func (l *load) step(ctx context.Context) error {
	create := 35
	if l.set.coalesced && len(l.alive) > 20 {
		create = 5
	}
	switch dice := l.random.IntN(100); {
	case len(l.alive) == 0 || dice < create:
		return l.create(ctx)
	case dice < 75 || l.set.coalesced && dice < 95:
		return l.update(ctx, l.alive[l.random.IntN(len(l.alive))])
	default:
		return l.remove(ctx, l.random.IntN(len(l.alive)))
	}
}

// create creates a new object, or creates a deleted object again.
func (l *load) create(ctx context.Context) error {
	var name string
	if len(l.deleted) > 0 && l.random.IntN(3) == 0 {
		i := l.random.IntN(len(l.deleted))
		name = l.deleted[i]
		l.deleted = slices.Delete(l.deleted, i, i+1)
	} else {
		l.next++
		name = fmt.Sprintf("%s-%04d", l.set.label, l.next)
	}
	at := time.Now()
	o, err := l.at.Create(ctx, l.object(name), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	l.alive = append(l.alive, name)
	l.changes = append(l.changes, change{"Added", name, l.seq[name], o.ResourceVersion, at})
	return nil
}

func (l *load) update(ctx context.Context, name string) error {
	at := time.Now()
	o, err := l.at.Update(ctx, l.object(name), metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	l.changes = append(l.changes, change{"Modified", name, l.seq[name], o.ResourceVersion, at})
	return nil
}

func (l *load) remove(ctx context.Context, i int) error {
	name, at := l.alive[i], time.Now()
	if err := l.at.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	l.alive = slices.Delete(l.alive, i, i+1)
	l.deleted = append(l.deleted, name)
	l.changes = append(l.changes, change{"Deleted", name, l.seq[name], "", at})
	return nil
}

// object returns the ConfigMap called name, with the next number in its data.
func (l *load) object(name string) *corev1.ConfigMap {
	l.seq[name]++
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"storm": l.set.label}},
		Data:       map[string]string{"seq": strconv.Itoa(l.seq[name])},
	}
}

// An editor changes the operator's ConfigMap.
type editor struct {
	at     v1.ConfigMapInterface
	random *rand.Rand
	level  int
	data   map[string]string
}

// run edits the ConfigMap at regular intervals until ctx ends. At the end it makes one more edit, with the method last.
func (e *editor) run(ctx context.Context, interval time.Duration) error {
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return e.last(context.WithoutCancel(ctx))
		case <-again.C:
		}
		if err := e.edit(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("edit the ConfigMap: %w", err)
		}
	}
}

// edit makes one random edit: it sets a new level in a section, removes a section, disables or enables the module named
// by toggled, or writes invalid content.
func (e *editor) edit(ctx context.Context) error {
	e.level++
	modules := stormModules()
	name := modules[e.random.IntN(len(modules))]
	const flag = toggled + "Enabled"
	switch dice := e.random.IntN(100); {
	case dice < 55:
		e.data[name] = fmt.Sprintf("level: %d\n", e.level)
	case dice < 75:
		e.data[flag] = strconv.FormatBool(e.data[flag] == "false")
	case dice < 85:
		e.data["global"] = fmt.Sprintf("level: %d\n", e.level)
	case dice < 90:
		e.data[name] = "level: [\n" // invalid YAML: the operator refuses the ConfigMap
	case dice < 93:
		e.data[name] = "- a list\n" // valid YAML, but the chart of the module cannot be rendered
	default:
		delete(e.data, name)
	}
	return e.write(ctx)
}

// last enables all modules, and sets a new level in the sections of all modules and in the section global.
func (e *editor) last(ctx context.Context) error {
	e.level++
	e.data = map[string]string{toggled + "Enabled": "true"}
	for _, section := range append(stormModules(), "global") {
		e.data[section] = fmt.Sprintf("level: %d\n", e.level)
	}
	return e.write(ctx)
}

func (e *editor) write(ctx context.Context) error {
	_, err := e.at.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}, Data: e.data}, metav1.UpdateOptions{})
	return err
}

// together runs all fns in parallel, and returns one result for each fn when all have ended.
func together(fns ...func() error) []error {
	errs := make([]error, len(fns))
	var running sync.WaitGroup
	for i, fn := range fns {
		running.Go(func() { errs[i] = fn() })
	}
	running.Wait()
	return errs
}
