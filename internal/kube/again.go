package kube

import (
	"context"
	"time"
)

// again says when a source is listed again.
type again struct {
	alarm  *time.Timer
	period time.Duration // zero: never
}

func newAgain() again {
	alarm := time.NewTimer(time.Hour)
	alarm.Stop()
	return again{alarm: alarm}
}

// set makes the alarm ring each period from now on. One that rings by that period already rings on as it does.
func (a *again) set(period time.Duration) {
	if period == a.period {
		return
	}
	a.period = period
	a.alarm.Stop()
	a.rearm()
}

// rearm has the alarm ring when another period is over.
func (a *again) rearm() {
	if a.period > 0 {
		a.alarm.Reset(a.period)
	}
}

// shortestPeriod returns the shortest period of all owners, zero if they have none.
func (f *watch) shortestPeriod() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var shortest time.Duration
	for _, v := range f.views {
		for _, o := range v.owners {
			if o.period > 0 && (shortest == 0 || o.period < shortest) {
				shortest = o.period
			}
		}
	}
	return shortest
}

// missing is an object that a view shows and a list of that version did not.
type missing struct{ uid, version string }

// relist lists the source again, takes over into the views what differs, and has the receiver compare what they show with
// what it was told.
//
// The list may be ahead of the watch. What has changed since the version the watch has come to is left to the watch, which
// will tell of each change: so the views stay at that version.
func (f *watch) relist(ctx context.Context) error {
	gathering, version, err := f.collect(ctx, func(v *view) bool { return v.asked && !After(v.listed, f.version) }, newestVersion)
	if err != nil {
		return err
	}
	for _, g := range gathering {
		f.mu.Lock()
		f.takeOver(g, version)
		judged := f.judgeAll([]gathered{g})
		g.view.listed, g.view.delivered = f.version, later(g.view.delivered, f.version)
		admitted := pick(g.view.owners, func(o *owner) bool { return o.registered })
		f.mu.Unlock()
		f.announce()
		f.tellFailures(judged)
		if err := f.sayList(ctx, g.view, Again, admitted); err != nil {
			return err
		}
	}
	return nil
}

// takeOver makes a view show what a list of that version does, as far as the watch has come. What is missing from the list
// may have been deleted after that: it is gone when it is missing again and the watch has passed the list it was missing
// from. The caller holds the lock.
func (f *watch) takeOver(g gathered, version string) {
	v := g.view
	for key, o := range g.objects {
		before := v.objects[key]
		same := before != nil && before.UID == o.UID && before.Checksum == o.Checksum && before.Unfiltered == o.Unfiltered
		if !same && !After(o.ResourceVersion, f.version) {
			v.set(key, o)
		}
	}
	absent := map[objectKey]missing{}
	for key, before := range v.objects {
		if g.objects[key] != nil {
			continue
		}
		if m, known := v.missing[key]; known && m.uid == before.UID && !After(m.version, f.version) {
			v.set(key, nil)
			continue
		}
		absent[key] = missing{before.UID, version}
	}
	v.missing = absent
}
