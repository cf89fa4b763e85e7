package kube

import (
	"context"
	"errors"
	"time"

	"addon-operator/internal/jq"
)

// Receiver receives the lists and changes of sources. Calls for one source are sequential and in
// order; calls for different sources are concurrent. A call that returns an error is repeated with
// the same content until it succeeds. So a receiver that stores each call in one transaction loses
// nothing and stores nothing twice. During a call, the watch buffers further changes up to a limit.
//
// Owners are named as in [Spec]. A call that is running when a monitor is closed may still name the
// owner of this monitor.
type Receiver interface {
	// Stored returns the version up to which the receiver has stored the view: the version of the
	// last [Batch] that names the view's filter or, if newer, of the last [List]. It is empty
	// before the first list. Lists with cause [Joined] do not change the stored version. A list
	// with cause [Appeared] changes the stored version only if it is the first list of the view.
	Stored(ctx context.Context, view View) (version string, err error)

	// Behind reports whether owners that had joined in an earlier process have missed changes of the
	// view that were delivered before they joined again. It is called when they join.
	Behind(ctx context.Context, view View, owners []string) (bool, error)

	// Listed receives all objects of a view.
	Listed(ctx context.Context, list List) error

	// Changed receives the changes of a source since the last call for this source. A batch without
	// changes only advances the version.
	Changed(ctx context.Context, batch Batch) error

	// Left is called when owners no longer select the view because its namespace no longer matches.
	// All earlier changes have been delivered before this call. Left is not called when a monitor
	// is closed.
	Left(ctx context.Context, view View, owners []string) error
}

// Cause is the reason why a list is delivered.
type Cause string

// The causes of a list.
const (
	// First means that nothing of the view was delivered before. Later batches contain the changes
	// after this list.
	First Cause = "first"
	// Joined means that the named owners are new, and the view is not. Earlier deliveries of the
	// view stay valid. If changes older than this list are delivered later, they do not name these
	// owners.
	Joined Cause = "joined"
	// Resumed means that some of the named owners have missed changes, as [Receiver.Behind] said.
	// The receiver compares the list with the objects delivered to each owner, as for a gap.
	Resumed Cause = "resumed"
	// Gap means that the API server could not deliver the changes since the stored version. The
	// receiver must compare the list with the objects delivered before: objects that differ were
	// changed, objects that are new were added, and missing objects were deleted.
	Gap Cause = "gap"
	// Periodic means that the period of an owner has passed; see [Spec]. The receiver compares it
	// with the objects delivered before, as for a gap.
	Periodic Cause = "again"
	// Appeared means that the kind was not served when the owners' monitors became ready, so their
	// snapshots were empty. For these owners, all objects of the list were added after that time.
	// If nothing of the view was delivered before, this is also the first list of the view.
	Appeared Cause = "appeared"
)

// List contains all objects of a view at one version.
type List struct {
	View   View
	Cause  Cause
	Owners []string
	// Others are the other owners of the view that have joined. An owner that is neither here nor
	// in Owners has left, or has not joined yet.
	Others []string
	// Version is the resource version of the list.
	Version string
	// Objects are sorted by namespace and name. An Unfiltered object exists, but its content is
	// unknown: the receiver must treat it as unchanged.
	Objects []*Object
}

// ChangeType is the type of a change.
type ChangeType string

// The types of changes, named as in the hook contract.
const (
	Added    ChangeType = "Added"
	Modified ChangeType = "Modified"
	Deleted  ChangeType = "Deleted"
)

// Change is the change of one object in one view.
type Change struct {
	// Type is the type as far as the watch knows. A receiver that stores the delivered objects must
	// compare: after a restart, an object that it knows may arrive as Added, an object that it does
	// not know may arrive as Modified or Deleted, and an unchanged object may arrive again.
	Type ChangeType
	// Filter is the text of the view's filter. The source of the view is the source of the batch.
	Filter string
	// Owners are the affected owners, sorted. If there are none, the receiver must still update
	// what it has stored of the view.
	Owners []string
	// Others are the other owners of the view that have joined, sorted. They got a newer list. An
	// owner that is neither here nor in Owners has left, or has not joined yet.
	Others []string
	// Object is the current object or, for a deletion, its last state. Its Raw is set if an owner
	// of the view keeps full objects.
	Object *Object
}

// Batch holds the changes of a source, oldest first. A change of an object is listed once for each
// affected view.
type Batch struct {
	Source Source
	// Filters are the filters of all views that are complete up to Version after this batch, also
	// of views without changes in the batch. If a view of the source is missing here, a list has
	// already delivered a newer version of it, or no list was delivered yet.
	Filters []string
	// Version is the version up to which these views are complete.
	Version string
	// Changes may be empty: then only the version has advanced. Such a batch is delivered at most
	// once a minute.
	Changes []Change
}

// silent is the receiver of watches whose owners read only snapshots. It ignores all calls.
type silent struct{}

func (silent) Stored(context.Context, View) (string, error)         { return "", nil }
func (silent) Behind(context.Context, View, []string) (bool, error) { return false, nil }
func (silent) Listed(context.Context, List) error                   { return nil }
func (silent) Changed(context.Context, Batch) error                 { return nil }
func (silent) Left(context.Context, View, []string) error           { return nil }

// Observer receives failures and timings. It cannot influence the watches, which retry after every
// failure. Functions may be nil. They are called concurrently, must return soon, and must not call
// the observed object.
type Observer struct {
	// SourceFailed is called when a list or a watch of a source failed.
	SourceFailed func(Source, error)
	// VersionRefused is called when the API server cannot continue a watch from a version, so that
	// the source is listed and compared.
	VersionRefused func(source Source, version string, err error)
	// FilterFailed is called when the filter of a view of these owners failed for an object. The
	// object stays unchanged in that view.
	FilterFailed func(view View, owners []string, object *Object, failure *jq.FilterError)
	// FailuresChanged is called when the failures that [Monitor.Failures] returns have changed for
	// a view: the objects or the reasons.
	FailuresChanged func(View)
	// ReceiverFailed is called when a receiver returned an error for a source.
	ReceiverFailed func(Source, error)
	// Clock returns the current time, for Filtered and Delivered. If Filtered or Delivered is set,
	// Clock must be set too.
	Clock func() time.Time
	// Filtered receives the duration of the filter of a view of these owners for one object.
	Filtered func(view View, owners []string, took time.Duration)
	// Delivered receives, for each change, the affected owners and the duration from the arrival of
	// the change until the receiver has accepted it.
	Delivered func(source Source, owners []string, took time.Duration)
	// KindFailed is called when an error prevents the decision whether a kind is served. The
	// parameter kind is the name as it was requested.
	KindFailed func(apiVersion, kind string, err error)
	// KindAwaited is called when an owner starts to wait for a kind that is not served, and again
	// whenever the kind is no longer served.
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

// time starts a measurement. It returns a function that returns the time since the call of time.
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

func (o Observer) kindFailed(apiVersion, kind string, err error) {
	if o.KindFailed != nil {
		o.KindFailed(apiVersion, kind, err)
	}
}
