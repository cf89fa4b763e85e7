package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"addon-operator/internal/hook"
)

// Result is the result of a review.
type Result string

// The results of reviews.
const (
	Allowed   Result = "allowed"
	Denied    Result = "denied"
	Done      Result = "converted" // the objects were converted
	Refused   Result = "refused"   // the hook returned a reason instead of objects, or there is no chain of hooks
	Failed    Result = "failed"    // the hook failed, or its response is invalid
	Empty     Result = "empty"     // the hook wrote no response
	TimedOut  Result = "timeout"   // the time for the response has passed, or the request was canceled
	Withdrawn Result = "withdrawn" // the binding was removed, so its hook was not called
	Broken    Result = "error"     // there was an error that the hook did not cause
)

// Report describes one review.
type Report struct {
	// Asked is the binding for the request, even if its hook could not be called. For a chain of
	// conversions, it is the binding of the last step that was tried. It is empty if there is no binding.
	Asked
	// Answered are the bindings of a chain of conversions whose hooks have converted the objects.
	Answered []Asked
	// Type is the type of the review request.
	Type hook.Type
	// UID is the UID of the review request, which the API server has set.
	UID    string
	Result Result
	// Message is the message to the client whose request is reviewed.
	Message string
	// Took is the time from the arrival of the request to the response. Ran is the part of this
	// time during which hooks ran.
	Took, Ran time.Duration
	// Err says why a hook could not be called or gave no valid response. It is nil if there is no such error, and if
	// Result is Withdrawn.
	Err error
}

// HookFailed is the message to the client whose request is reviewed, if the hook failed or its
// response is invalid. The output of the hook is only in the operator's log.
const HookFailed = "Hook failed"

const (
	// conversionWithin is the time for which the API server waits for a conversion.
	conversionWithin = 30 * time.Second
	// margin is the time by which the operator times out before the API server does, so that the
	// API server still receives the error.
	margin = 200 * time.Millisecond
)

// within returns a context that ends shortly before the API server stops waiting for the response
// to the request r. The API server waits for the timeout in the URL of r, but at most for the duration in the argument
// most. If the URL has no valid timeout, the API server waits for most.
func within(r *http.Request, most time.Duration) (context.Context, context.CancelFunc) {
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		most = min(most, asked)
	}
	return context.WithTimeoutCause(r.Context(), most-margin, fmt.Errorf("it did not answer within %s", most))
}

// ask waits until fewer than Options.AtOnce hooks of webhooks run, and then calls the hook of the
// request q.
func (s *Server) ask(ctx context.Context, q ReviewRequest) (Answer, error) {
	if err := s.places.Acquire(ctx, 1); err != nil {
		return Answer{}, fmt.Errorf("hook %s was not called: %d other hooks %w; a higher --webhook-hooks-at-once lets more hooks run", q.name(), s.options.AtOnce, ErrBusy)
	}
	defer s.places.Release(1)
	answer, err := s.options.Ask(ctx, q)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrNotApplied) {
		err = fmt.Errorf("hook %s: %w", q.name(), context.Cause(ctx))
	}
	return answer, err
}

func (a Asked) name() string {
	if a.Module == "" {
		return a.Hook
	}
	return a.Module + "/" + a.Hook
}

// ErrBusy is wrapped by the error for a request whose hook could not start before the timeout,
// because too many other hooks were running.
var ErrBusy = errors.New("ran until the timeout")

// resultOf returns the result of a review that ended with err. If err is nil, resultOf returns the
// argument good.
func resultOf(ctx context.Context, err error, good Result) Result {
	switch {
	case err == nil:
		return good
	case errors.Is(err, ErrNotApplied):
		return Broken
	case ctx.Err() != nil:
		return TimedOut
	case errors.Is(err, ErrHookFailed):
		return Failed
	case errors.Is(err, hook.ErrNoResponse):
		return Empty
	default:
		return Broken
	}
}

func (s *Server) observe(began time.Time, r Report) {
	if s.options.Observe != nil {
		r.Took = s.options.Clock().Sub(began)
		s.options.Observe(r)
	}
}

// admit responds to an AdmissionReview for a binding of the given type. If a is nil, the binding of the webhook was
// removed, and admit allows the request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, of hook.Type, a *Admission) {
	began := s.options.Clock()
	text, err := body(w, r, maxAdmission)
	if err != nil {
		send(w, reply{}, err)
		return
	}
	review, err := readAdmission(text)
	if err != nil {
		send(w, reply{}, &httpError{http.StatusBadRequest, err})
		return
	}
	if a == nil {
		send(w, review.answer(hook.Verdict{Allowed: true}), nil)
		s.observe(began, Report{Type: of, UID: review.Request.UID, Result: Withdrawn})
		return
	}
	ctx, cancel := within(r, time.Duration(a.Config.TimeoutSeconds)*time.Second)
	defer cancel()
	q := ReviewRequest{Asked: a.Asked, Type: of, Review: text, UID: review.Request.UID, DryRun: review.Request.DryRun}
	answer, err := s.ask(ctx, q)
	report := Report{Asked: a.Asked, Type: q.Type, UID: q.UID, Ran: answer.Ran, Err: err, Message: answer.Verdict.Message}
	report.Result = resultOf(ctx, err, Denied)
	if answer.Verdict.Allowed && err == nil {
		report.Result = Allowed
	}
	if errors.Is(err, ErrWithdrawn) {
		report.Result, report.Err = Withdrawn, nil
		answer.Verdict, err = hook.Verdict{Allowed: true}, nil
	}
	if report.Result == Failed { // the request is denied; after all other errors, failurePolicy applies
		report.Message = HookFailed
		answer.Verdict, err = hook.Verdict{Message: HookFailed}, nil
	}
	send(w, review.answer(answer.Verdict), err)
	s.observe(began, report)
}

// convert responds to a ConversionReview for objects of the CustomResourceDefinition crd, with the
// bindings in the argument served. If the bindings of all hooks are known and none is for crd,
// convert changes only the apiVersion of the objects.
func (s *Server) convert(w http.ResponseWriter, r *http.Request, crd string, served *routes) {
	began := s.options.Clock()
	text, err := body(w, r, maxConversion)
	if err != nil {
		send(w, reply{}, err)
		return
	}
	review, err := readConversion(text)
	if err != nil {
		send(w, reply{}, &httpError{http.StatusBadRequest, err})
		return
	}
	ctx, cancel := within(r, conversionWithin)
	defer cancel()
	c := &converter{server: s, review: review, crd: crd, links: served.conversions[crd], report: Report{Type: hook.TypeConversion, UID: review.Request.UID}}
	c.removed = served.complete && len(c.links) == 0
	converted, err := c.all(ctx)
	c.report.Err, c.report.Message = err, converted.Failed
	c.report.Result = resultOf(ctx, err, Done)
	switch {
	case c.removed && err == nil:
		c.report.Result = Withdrawn
	case converted.Failed != "":
		c.report.Result = Refused
	case c.report.Result == Failed:
		c.report.Message = HookFailed
		converted, err = hook.Converted{Failed: HookFailed}, nil
	}
	send(w, review.answer(converted), err)
	s.observe(began, c.report)
}

// converter processes one ConversionReview.
type converter struct {
	server  *Server
	review  conversionReview
	crd     string
	links   []link
	removed bool  // no hook converts objects of crd any more
	gone    error // error of the last called hook that no longer exists; nil if there is none
	report  Report
}

// all converts the objects of the review. It groups the objects by version and calls c.one for each
// group.
func (c *converter) all(ctx context.Context) (hook.Converted, error) {
	request := c.review.Request
	out := make([]json.RawMessage, len(request.Objects))
	places := map[string][]int{} // indexes in request.Objects by version
	var versions []string
	for i, object := range request.Objects {
		version, err := versionOf(object)
		if err != nil {
			return hook.Converted{}, &httpError{http.StatusBadRequest, err}
		}
		if len(places[version]) == 0 {
			versions = append(versions, version)
		}
		places[version] = append(places[version], i)
	}
	for _, version := range versions {
		objects := make([]json.RawMessage, 0, len(places[version]))
		for _, place := range places[version] {
			objects = append(objects, request.Objects[place])
		}
		converted, err := c.one(ctx, version, objects)
		if err != nil || converted.Failed != "" {
			return converted, err
		}
		for i, place := range places[version] {
			out[place] = converted.Objects[i]
		}
	}
	return hook.Converted{Objects: out}, nil
}

// one converts objects, which all have the given version, to the requested version. It calls the
// hooks of the shortest chain.
func (c *converter) one(ctx context.Context, version string, objects []json.RawMessage) (hook.Converted, error) {
	wanted := c.review.Request.DesiredAPIVersion
	if version == wanted {
		return hook.Converted{Objects: objects}, nil
	}
	row := chain(c.links, version, wanted)
	switch {
	case c.removed:
		return relabelAll(objects, wanted)
	case row == nil && c.gone != nil:
		return hook.Converted{}, c.gone
	case len(c.links) == 0: // another hook may convert the objects, but its binding is not in the table yet
		return hook.Converted{}, fmt.Errorf("the hooks that convert %s are being replaced; try again", c.crd)
	case row == nil:
		return hook.Converted{Failed: fmt.Sprintf("no hooks convert %s from %s to %s", c.crd, version, wanted)}, nil
	}
	sent := objects
	for _, l := range row {
		review, err := json.Marshal(conversionReview{c.review.Kind, c.review.APIVersion, &conversionRequest{c.review.Request.UID, l.to, objects}})
		if err != nil {
			return hook.Converted{}, err
		}
		c.report.Asked = l.Asked
		answer, err := c.server.ask(ctx, ReviewRequest{
			Asked: l.Asked, Type: hook.TypeConversion, Review: review, UID: c.review.Request.UID,
			FromVersion: l.FromVersion, ToVersion: l.ToVersion, Objects: objects, Version: l.to,
		})
		c.report.Ran += answer.Ran
		gone := errors.Is(err, hook.ErrGone)
		if gone {
			c.gone = err
		}
		if gone || errors.Is(err, ErrWithdrawn) {
			c.withdraw(l.Asked)
			return c.one(ctx, version, sent)
		}
		if err != nil || answer.Converted.Failed != "" {
			return answer.Converted, err
		}
		c.report.Answered = append(c.report.Answered, l.Asked)
		objects = answer.Converted.Objects
	}
	return hook.Converted{Objects: objects}, nil
}

// withdraw removes from c.links the conversion steps of a binding that was removed, or whose hook no
// longer exists. The table of the server does not show the removal yet.
func (c *converter) withdraw(a Asked) {
	var others []link
	for _, l := range c.links {
		if l.Asked != a {
			others = append(others, l)
		}
	}
	c.links = others
}

func relabelAll(objects []json.RawMessage, version string) (hook.Converted, error) {
	var out hook.Converted
	for _, object := range objects {
		changed, err := relabelled(object, version)
		if err != nil {
			return out, &httpError{http.StatusBadRequest, err}
		}
		out.Objects = append(out.Objects, changed)
	}
	return out, nil
}
