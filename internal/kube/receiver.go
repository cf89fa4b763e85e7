package kube

import (
	"context"
	"errors"
	"time"

	"addon-operator/internal/jq"
)

// Receiver receives the lists and changes of sources. The calls for one source come one after another and in order. The
// calls for different sources are concurrent. If a call returns an error, it is repeated with the same content until it
// returns no error, or until the watch of the source is stopped. So if a receiver stores the content of each call in
// one transaction, it loses no call and stores no call twice. During a call, the watch buffers further changes up to a
// limit.
//
// The names of owners are those in [Spec]. A call may still name an owner whose monitor has just been closed.
type Receiver interface {
	// Stored returns the version up to which the receiver has stored the view. It is the version of the last [List] of
	// the view, or of the last [Batch] whose Filters contain the filter of the view, whichever was delivered last. It
	// is empty before the first list. Lists with the cause [Joined] do not change the stored version. A list with the
	// cause [Appeared] changes it only if it is the first list of the view.
	Stored(ctx context.Context, view View) (version string, err error)

	// Behind is called when owners join a view again: in a new process, or because the API server serves the kind
	// again. It reports whether one of these owners has left the view since its last delivery, or may have missed a
	// change of the view that was delivered to other owners.
	Behind(ctx context.Context, view View, owners []string) (bool, error)

	// Listed is called with a list of all objects of a view.
	Listed(ctx context.Context, list List) error

	// Changed is called with the changes of a source since the last call for this source. A batch without changes only
	// advances the version.
	Changed(ctx context.Context, batch Batch) error

	// Left is called when owners no longer follow the view, because its namespace does not match their selections any
	// more. All earlier changes have been delivered before this call, with one exception: if the API server refuses to
	// list the source, or does not serve it, although the namespace still exists, pending changes are not delivered. If a
	// monitor is closed, or if the namespace matches again before the call, Left is not called.
	Left(ctx context.Context, view View, owners []string) error
}

// Cause says why a list is delivered.
type Cause string

// These are the causes of a list.
const (
	// First means that nothing of the view has been delivered before. The changes after this list will be delivered in
	// batches.
	First Cause = "first"
	// Joined means that the owners in the list are new, but the view is not. The earlier deliveries of the view are
	// still valid. Changes that are older than this list may be delivered later, but not to these owners.
	Joined Cause = "joined"
	// Resumed means that some of the owners in the list have missed changes, as [Receiver.Behind] has said. As for
	// [Gap], the receiver compares the list with the objects that were delivered to each owner.
	Resumed Cause = "resumed"
	// Gap means that the list replaces the changes since the stored version: the API server did not have them, or an
	// owner of a view of the source is leaving. So the receiver must compare the list with the objects that were
	// delivered before. If an object differs, it was changed. If it is new, it was added. If it is missing, it was
	// deleted. The list is empty if the namespace of the source does not exist any more, and the API server refuses to
	// list the source.
	Gap Cause = "gap"
	// Periodic means that the period of an owner has passed, see [Spec]. As for [Gap], the receiver compares the list
	// with the objects that were delivered before.
	Periodic Cause = "again"
	// Appeared means that the kind was not served when the monitors of the owners in the list became ready, so that
	// their snapshots were empty. For these owners, all objects in the list were added later. If nothing of the view
	// has been delivered before, this is also the first list of the view.
	Appeared Cause = "appeared"
)

// List contains all objects that a view has at one version.
type List struct {
	View   View
	Cause  Cause
	Owners []string
	// Others are the other owners of the view that have joined. An owner that is neither in Owners nor in Others has
	// left, or has not joined yet.
	Others []string
	// Version is the resource version of the list.
	Version string
	// Objects are sorted by namespace and name. An object that is Unfiltered exists, but its content is not known. The
	// receiver must treat it as unchanged.
	Objects []*Object
}

// ChangeType is the type of a change.
type ChangeType string

// These are the types of changes. Hooks get the same names.
const (
	Added    ChangeType = "Added"
	Modified ChangeType = "Modified"
	Deleted  ChangeType = "Deleted"
)

// Change is a change of one object in one view.
type Change struct {
	// Type is the type of the change as far as the watch knows. A receiver that stores objects must compare the object
	// with the one that it has stored. After a restart, a stored object may come as Added, an object that is not stored
	// may come as Modified or Deleted, and an unchanged object may come again.
	Type ChangeType
	// Filter is the filter of the view as text. The source of the view is that of the batch.
	Filter string
	// Owners are the owners of the view that get the change, sorted. If there are none, the receiver must nevertheless
	// update the objects that it has stored for the view.
	Owners []string
	// Others are the other owners of the view that have joined, sorted. They have got a list that is newer than the
	// change. An owner that is neither in Owners nor in Others has left, or has not joined yet.
	Others []string
	// Object is the object after the change or, if it was deleted, its last state. Its Raw is set if an owner of the
	// view keeps full objects.
	Object *Object
}

// Batch contains changes of a source, the oldest first. If an object changes in several views, there is a change for
// each of them.
type Batch struct {
	Source Source
	// Filters are the filters of all views of the source that are complete up to Version after this batch, including
	// views without a change in the batch. If the filter of a view is missing here, the receiver already has a newer
	// version of the view, or the watch has not called [Receiver.Stored] for the view yet.
	Filters []string
	// Version is the version up to which the views in Filters are complete.
	Version string
	// Changes is empty if only the version has advanced. Such a batch is delivered at most once a minute.
	Changes []Change
}

// silent is the Receiver for watches whose owners read only snapshots. It ignores all calls.
type silent struct{}

func (silent) Stored(context.Context, View) (string, error)         { return "", nil }
func (silent) Behind(context.Context, View, []string) (bool, error) { return false, nil }
func (silent) Listed(context.Context, List) error                   { return nil }
func (silent) Changed(context.Context, Batch) error                 { return nil }
func (silent) Left(context.Context, View, []string) error           { return nil }

// Observer is told about failures and durations. It cannot influence the watches, which try again after every failure.
// Each function may be nil. The functions are called concurrently, must return soon, and must not call the object that
// calls them.
type Observer struct {
	// SourceFailed is called when a list, a watch or another request for a source has failed.
	SourceFailed func(Source, error)
	// VersionRefused is called when the API server cannot continue a watch at version. The receiver then gets a list
	// with the cause [Gap] instead of the changes.
	VersionRefused func(source Source, version string, err error)
	// FilterFailed is called when the filter of a view has failed for an object. The argument owners has the owners of
	// the view. Unless the object was deleted, the view keeps its earlier state of the object.
	FilterFailed func(view View, owners []string, object *Object, failure *jq.FilterError)
	// FailuresChanged is called when the filter failures of a view have changed, see [Monitor.Failures].
	FailuresChanged func(View)
	// ReceiverFailed is called when a receiver has returned an error for a source, or when a [DeliverAbsent] has
	// returned an error. In the second case, the argument is the source of one of the absent objects.
	ReceiverFailed func(Source, error)
	// Clock returns the current time. It must be set if Filtered or Delivered is set.
	Clock func() time.Time
	// Filtered is called when the filter of a view has run for one object. The argument owners has the owners of the
	// view, and took is the duration of the run.
	Filtered func(view View, owners []string, took time.Duration)
	// Delivered is called for each change that the receiver has accepted. The argument owners has the owners that get
	// the change. The argument took is the duration from the time at which the watch takes the change out of its buffer
	// until the receiver has accepted the change.
	Delivered func(source Source, owners []string, took time.Duration)
	// KindFailed is called with the error if the lookup of a kind has failed. The argument kind is the requested name
	// of the kind.
	KindFailed func(apiVersion, kind string, err error)
	// KindAwaited is called each time an owner starts to wait for a kind, because the kind is not served yet, or is no
	// longer served.
	KindAwaited func(owner string, missing *NotServedError)
	// KindSettled is called when an owner begins to follow kind, although the kinds of a more preferred version cannot
	// be read. The argument err says why they cannot.
	KindSettled func(owner string, kind Kind, err error)
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

// time returns a function that returns the duration since the call of time. If there is no Clock, the function returns
// 0.
func (o Observer) time() func() time.Duration {
	if o.Clock == nil {
		return func() time.Duration { return 0 }
	}
	began := o.Clock()
	return func() time.Duration { return o.Clock().Sub(began) }
}

func (o Observer) reportDelivered(s Source, changes []Change, took time.Duration) {
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

func (o Observer) kindSettled(owner string, kind Kind, err error) {
	if o.KindSettled != nil {
		o.KindSettled(owner, kind, err)
	}
}

func (o Observer) kindFailed(apiVersion, kind string, err error) {
	if o.KindFailed != nil {
		o.KindFailed(apiVersion, kind, err)
	}
}
