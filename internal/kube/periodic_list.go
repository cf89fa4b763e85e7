package kube

import (
	"context"
	"time"
)

// periodicTimer says when the next periodic list of a source is due.
type periodicTimer struct {
	alarm  *time.Timer
	period time.Duration // zero if there are no periodic lists
}

func newPeriodicTimer() periodicTimer {
	alarm := time.NewTimer(time.Hour)
	alarm.Stop()
	return periodicTimer{alarm: alarm}
}

// set sets the period. If the period has changed, the alarm is started again for the new period or, if the new period
// is zero, stopped. Otherwise the alarm is not changed.
func (a *periodicTimer) set(period time.Duration) {
	if period == a.period {
		return
	}
	a.period = period
	a.alarm.Stop()
	a.rearm()
}

// rearm starts the alarm for one period. If the period is zero, it does nothing.
func (a *periodicTimer) rearm() {
	if a.period > 0 {
		a.alarm.Reset(a.period)
	}
}

// missing records that an object of a view was not in a list. uid is the UID of the object, and version is the version
// of the list.
type missing struct{ uid, version string }

// relist lists the source again, updates the views, and delivers the objects of each view to the receiver. The receiver
// compares them with the objects that were delivered before. relist skips views whose objects are newer than the
// version that the watch has reached, and views for which the receiver was not asked yet which version it has stored.
//
// The list may be newer than the version that the watch has reached. The changes after this version will come from the
// watch, so relist does not apply them to the views. If the versions cannot be compared, relist applies all changes,
// because it does no harm if the watch delivers them again.
func (f *watch) relist(ctx context.Context) error {
	gathering, version, err := f.collect(ctx, func(v *view) bool { return v.asked && !isAhead(v.listed, f.version) }, newestVersion)
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

// update updates the view of g from the list with this version. The argument reached is the version that the watch has
// reached. update applies no changes that are known to be later than this version. An object that is not in the list
// may have been deleted after the version that the watch has reached. So update removes the object only if the previous
// periodic list did not contain it either, and the version of that list is not known to be later than reached. The
// caller holds the lock.
func (g gathered) update(version, reached string) {
	v := g.view
	for key, o := range g.objects {
		before := v.objects[key]
		same := before != nil && before.UID == o.UID && before.Checksum == o.Checksum && before.Unfiltered == o.Unfiltered
		if !same && !isAhead(o.ResourceVersion, reached) {
			v.set(key, o)
		}
	}
	absent := map[objectKey]missing{}
	for key, before := range v.objects {
		if g.objects[key] != nil {
			continue
		}
		if m, known := v.missing[key]; known && m.uid == before.UID && !isAhead(m.version, reached) {
			v.set(key, nil)
			continue
		}
		absent[key] = missing{before.UID, version}
	}
	v.missing = absent
}
