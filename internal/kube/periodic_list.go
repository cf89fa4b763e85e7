package kube

import (
	"context"
	"time"
)

// periodicTimer is the timer for periodic lists of a source.
type periodicTimer struct {
	alarm  *time.Timer
	period time.Duration // zero: no periodic lists
}

func newPeriodicTimer() periodicTimer {
	alarm := time.NewTimer(time.Hour)
	alarm.Stop()
	return periodicTimer{alarm: alarm}
}

// set makes the alarm fire every period. If the period is unchanged, the running alarm is kept.
func (a *periodicTimer) set(period time.Duration) {
	if period == a.period {
		return
	}
	a.period = period
	a.alarm.Stop()
	a.rearm()
}

// rearm restarts the alarm for one period.
func (a *periodicTimer) rearm() {
	if a.period > 0 {
		a.alarm.Reset(a.period)
	}
}

// missing is an object that a view contains and a list of that version did not.
type missing struct{ uid, version string }

// relist lists the source again, updates the views with the differences, and makes the receiver
// compare the objects with those delivered before.
//
// The list may be newer than the version that the watch has reached. The watch delivers the changes
// after that version itself, so the views stay at that version.
func (f *watch) relist(ctx context.Context) error {
	gathering, version, err := f.collect(ctx, func(v *view) bool { return v.asked && !After(v.listed, f.version) }, newestVersion)
	if err != nil {
		return err
	}
	for _, g := range gathering {
		f.mu.Lock()
		g.update(version, f.version)
		judged := judgeAll([]gathered{g})
		g.view.listed, g.view.delivered = f.version, later(g.view.delivered, f.version)
		admitted := pick(g.view.owners, func(o *owner) bool { return o.registered })
		f.mu.Unlock()
		f.announce()
		f.reads.observer.failuresChanged(judged...)
		if err := f.deliverList(ctx, g.view, Periodic, admitted); err != nil {
			return err
		}
	}
	return nil
}

// update updates the view of g from a list of the given version. Only changes up to version
// reached, the version of the watch, are applied. An object that is missing from the list may have
// been deleted after reached. It is removed when a later list does not contain it either and the
// watch has passed the version of the first such list. The caller holds the lock.
func (g gathered) update(version, reached string) {
	v := g.view
	for key, o := range g.objects {
		before := v.objects[key]
		same := before != nil && before.UID == o.UID && before.Checksum == o.Checksum && before.Unfiltered == o.Unfiltered
		if !same && !After(o.ResourceVersion, reached) {
			v.set(key, o)
		}
	}
	absent := map[objectKey]missing{}
	for key, before := range v.objects {
		if g.objects[key] != nil {
			continue
		}
		if m, known := v.missing[key]; known && m.uid == before.UID && !After(m.version, reached) {
			v.set(key, nil)
			continue
		}
		absent[key] = missing{before.UID, version}
	}
	v.missing = absent
}
