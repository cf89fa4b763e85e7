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

// set sets the period of the alarm and starts it. If the period is unchanged, the running alarm is
// kept. If it is zero, the alarm is stopped.
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

// missing records that the list of that version did not contain an object of the view.
type missing struct{ uid, version string }

// relist lists the source again, updates the views, and delivers the objects of each view to the
// receiver, which compares them with the objects delivered before.
//
// The list may be newer than the version that the watch has reached. The watch will deliver the
// changes after the version that it has reached, so relist does not move the views beyond that
// version.
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
		admitted := g.view.registered()
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
// been deleted after reached. So update removes the object only if an earlier list did not contain
// it either, and the watch has reached the version of that list. The caller holds the lock.
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
