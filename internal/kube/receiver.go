package kube

import (
	"context"
	"errors"
	"time"

	"addon-operator/internal/jq"
)

// Receiver is told what sources show. All calls about one source come one after another, in the order of what they tell;
// calls about different sources come side by side. A call that returns an error is made again, with the same content, until
// it returns none: so a receiver that keeps what it was told in one transaction loses nothing and keeps nothing twice.
// While a call runs the source reads ahead a little, then the connection backs up.
//
// Owners are named as in [Spec]. A call under way when a monitor is closed may still name its owner.
type Receiver interface {
	// Stored returns the version up to which the view was told in full: that of the last [Batch] which names the view's
	// filter, or of the last [List] of it since. It is empty if there was no list yet; one that is [Joined], or is [Appeared]
	// but not the first, does not count.
	Stored(ctx context.Context, view View) (version string, err error)

	// Listed is told all objects of a view.
	Listed(ctx context.Context, list List) error

	// Changed is told what changed in a source since the last call about it, or only that nothing did up to a version.
	Changed(ctx context.Context, batch Batch) error

	// Left is told that the view is no longer in the selections of owners: its namespace no longer matches. What became of
	// its objects before was told. There is no call when a monitor is closed.
	Left(ctx context.Context, view View, owners []string) error
}

// Cause says why a list is told.
type Cause string

// The causes of a list.
const (
	// First means that nothing of the view was ever told: the list is what later changes are changes of.
	First Cause = "first"
	// Joined means that only the owners are new. What was told of the view stays right, and older changes of it that are
	// still to come do not name them.
	Joined Cause = "joined"
	// Gap means that the server could not tell what happened since the stored version: what differs between what was told
	// and the list has changed. What is not in the list was deleted.
	Gap Cause = "gap"
	// Again means that a period is over after which all objects are looked at again: as of a gap, what differs between
	// what was told and the list has changed.
	Again Cause = "again"
	// Appeared means that the kind was not served when the owners' monitors were ready, so they were shown nothing: to them,
	// all objects in the list were added since. If nothing of the view was ever told, this is also its first list.
	Appeared Cause = "appeared"
)

// List is all objects of a view at one version.
type List struct {
	View   View
	Cause  Cause
	Owners []string
	// Version is what the list was read at.
	Version string
	// Objects are sorted by namespace and name. One that is Unfiltered exists and has to be taken for unchanged.
	Objects []*Object
}

// ChangeType says what happened to an object.
type ChangeType string

// The types of changes, named as hooks know them.
const (
	Added    ChangeType = "Added"
	Modified ChangeType = "Modified"
	Deleted  ChangeType = "Deleted"
)

// Change is what happened to one object in one view.
type Change struct {
	// Type is as far as is known here. Who remembers what was told before knows better: after a restart an object told of
	// before may come as Added, one not told of as Modified or Deleted, and one that has not changed at all.
	Type ChangeType
	// Filter is the text of the view's filter; its source is the batch's.
	Filter string
	// Owners are whom it concerns, sorted. They may be none: the change is of the view all the same.
	Owners []string
	// Object is as it is now, or, of a deleted one, as it was last. Its Raw is there if any owner of the view wants it.
	Object *Object
}

// Batch is what changed in a source, oldest first. A change of an object comes once for each view it changes.
type Batch struct {
	Source Source
	// Filters are the texts of the filters of all views that are told in full up to Version with this batch, whether it has
	// changes of them or not. A view that is not named was told more already, by a list.
	Filters []string
	// Version is the one up to which they are told.
	Version string
	// Changes may be none: then only the version has moved. That is told at most once a minute.
	Changes []Change
}

// silent is a receiver for those who only read snapshots.
type silent struct{}

func (silent) Stored(context.Context, View) (string, error) { return "", nil }
func (silent) Listed(context.Context, List) error           { return nil }
func (silent) Changed(context.Context, Batch) error         { return nil }
func (silent) Left(context.Context, View, []string) error   { return nil }

// Observer is told what goes wrong, and is not asked what to do: everything is tried again. Fields may be nil. They are
// called from many goroutines and must return soon, without a call to what they are told about.
type Observer struct {
	// SourceFailed is told why a list or a watch of a source failed.
	SourceFailed func(Source, error)
	// VersionRefused is told that a source cannot be read on from a version, and so is compared with a list.
	VersionRefused func(source Source, version string, err error)
	// FilterFailed is told that the filter of a view of these owners failed on an object, which therefore stays as it was in
	// that view.
	FilterFailed func(view View, owners []string, object *Object, failure *jq.FilterError)
	// FailuresChanged is told that the filter of a view fails on other objects than before, or for other reasons.
	// [Monitor.Failures] returns them.
	FailuresChanged func(View)
	// ReceiverFailed is told why a receiver did not take what it was told of a source.
	ReceiverFailed func(Source, error)
	// Clock tells the time for Filtered and Delivered; all three are there or none.
	Clock func() time.Time
	// Filtered is told how long the filter of a view of these owners took on an object.
	Filtered func(view View, owners []string, took time.Duration)
	// Delivered is told how long it took from when a change of the source had arrived to when the receiver had taken it, and
	// whom it concerned.
	Delivered func(source Source, owners []string, took time.Duration)
	// KindFailed is told why it is not known whether a kind is served. The name is as it was asked for.
	KindFailed func(apiVersion, kind string, err error)
	// KindAwaited is told that an owner follows a kind that is not served, which is waited for. It is told again when the
	// kind is served no longer.
	KindAwaited func(owner string, missing *NotServedError)
}

func (o Observer) sourceFailed(s Source, err error) {
	if o.SourceFailed != nil {
		o.SourceFailed(s, err)
	}
}

func (o Observer) versionRefused(s Source, version string, err error) {
	if o.VersionRefused != nil {
		o.VersionRefused(s, version, err)
	}
}

func (o Observer) filterFailed(v View, owners []string, object *Object, failure *jq.FilterError) {
	if o.FilterFailed != nil {
		o.FilterFailed(v, owners, object, failure)
	}
}

func (o Observer) failuresChanged(views ...View) {
	if o.FailuresChanged == nil {
		return
	}
	for _, v := range views {
		o.FailuresChanged(v)
	}
}

// time begins to time something, and returns what has passed since.
func (o Observer) time() func() time.Duration {
	if o.Clock == nil {
		return func() time.Duration { return 0 }
	}
	began := o.Clock()
	return func() time.Duration { return o.Clock().Sub(began) }
}

func (o Observer) told(s Source, changes []Change, took time.Duration) {
	if o.Delivered == nil {
		return
	}
	for _, c := range changes {
		o.Delivered(s, c.Owners, took)
	}
}

func (o Observer) receiverFailed(s Source, err error) {
	if o.ReceiverFailed != nil {
		o.ReceiverFailed(s, err)
	}
}

func (o Observer) kindAwaited(owner string, missing error) {
	var kind *NotServedError
	if o.KindAwaited != nil && errors.As(missing, &kind) {
		o.KindAwaited(owner, kind)
	}
}

func (o Observer) kindFailed(apiVersion, kind string, err error) {
	if o.KindFailed != nil {
		o.KindFailed(apiVersion, kind, err)
	}
}
