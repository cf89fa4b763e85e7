package webhooks

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"addon-operator/internal/hook"
	"addon-operator/internal/webhook"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// failuresShown is the time for which a failing hook is shown as a problem, from its last failure. Later, it is not
// known whether the hook still fails.
const failuresShown = time.Hour

// A failingReview is a webhook binding whose hook failed at the last request.
type failingReview struct {
	report      webhook.Report // the last failure
	n           int            // number of failures in a row
	first, last time.Time
}

// failingReviews are the webhook bindings whose hooks failed at the last request.
type failingReviews map[webhook.Asked]*failingReview

// reviewed records the result of a request.
func (f *failingReviews) reviewed(r webhook.Report, now time.Time) {
	for _, asked := range r.Answered {
		delete(*f, asked)
	}
	switch r.Result {
	case webhook.Failed, webhook.Empty, webhook.TimedOut:
	case webhook.Broken, webhook.Withdrawn:
		return // the hook does not cause the results Broken and Withdrawn
	default:
		delete(*f, r.Asked)
		return
	}
	if r.Hook == "" || errors.Is(r.Err, webhook.ErrBusy) || errors.Is(r.Err, context.Canceled) {
		return // no hook ran, or the API server canceled the request
	}
	if *f == nil {
		*f = failingReviews{}
	}
	one := (*f)[r.Asked]
	if one == nil {
		one = &failingReview{first: now}
		(*f)[r.Asked] = one
	}
	one.report, one.last = r, now
	one.n++
}

// Observed returns the problems of webhooks that the operator observes: hooks that do not answer requests, and
// certificates that expire soon.
func (w *Webhooks) Observed(now time.Time) (problems []inspect.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, asked := range slices.SortedFunc(maps.Keys(w.failing), func(a, b webhook.Asked) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Binding, b.Binding))
	}) {
		f := w.failing[asked]
		affected, ignored, served := w.affected(asked)
		if now.Sub(f.last) < failuresShown && served {
			problems = append(problems, f.problem(affected, ignored))
		}
	}
	if len(w.table.Admissions)+len(w.table.Conversions) == 0 {
		return problems
	}
	for _, c := range w.Endpoint.Certificates() {
		if p := expiring(c, now); p != nil {
			problems = append(problems, *p)
		}
	}
	return problems
}

// affected returns a description of the requests that the hook of a binding answers, and whether
// the API server ignores a missing response. The result served is false if the binding is not
// registered. The caller holds mu.
func (w *Webhooks) affected(asked webhook.Asked) (requests string, ignored, served bool) {
	for _, a := range w.table.Admissions {
		if a.Asked == asked {
			return requestsOf(a.Config.Rules), a.Config.FailurePolicy == admissionv1.Ignore, true
		}
	}
	for _, c := range w.table.Conversions {
		if c.Asked == asked {
			return "requests for " + c.Config.CRDName + " in another version than the stored one", false, true
		}
	}
	return "", false, false
}

// problem returns the problem of a hook that does not answer requests. The argument ignored must be true if the webhook
// has failurePolicy Ignore: the API server then admits requests that the hook does not answer in time. If the hook
// fails, the operator itself rejects the request, whatever the failurePolicy is.
func (f *failingReview) problem(affected string, ignored bool) inspect.Problem {
	r := &f.report
	p := inspect.Problem{
		Kind: inspect.KindReview, Subject: graph.Subject{Module: r.Module, Hook: r.Hook, Binding: r.Binding}, Object: "webhook", At: f.first,
		Last: lastError(r),
		Fix:  "correct the hook: the log of the operator has its output. The next request shows whether it works",
	}
	times := "at the last request"
	if f.n > 1 {
		times = "at the last " + strconv.Itoa(f.n) + " requests"
	}
	effect := "the API server rejects "
	if ignored && r.Result != webhook.Failed {
		effect = "the API server admits without a check "
	}
	p.Error = effect + affected + ", because hook " + hookName(r.Asked) + " failed " + times + ": " + p.Last
	if r.Type != hook.TypeConversion && effect == "the API server rejects " {
		p.Command, p.Effect = []string{"webhooks", "withdraw"}, "admits the requests of all admission webhooks without a check, until the operator starts again"
	}
	return p
}

// lastError returns the error of the last failed review. lastError omits the name of the hook,
// which the problem already has.
func lastError(r *webhook.Report) string {
	text := strings.TrimPrefix(r.Err.Error(), webhook.ErrHookFailed.Error()+": ")
	for _, name := range []string{"hook " + hookName(r.Asked), hookName(r.Asked) + " " + r.Binding} {
		text = strings.TrimPrefix(text, name+": ")
	}
	return text
}

// expiring returns the problem of a certificate that expires soon; nil if it does not. Soon means
// that at most a fifth of its lifetime, and at most two weeks, are left. Common tools, such as
// cert-manager, replace a certificate earlier than that.
func expiring(c webhook.Serving, now time.Time) *inspect.Problem {
	const fifth, mostLeft = 5, 14 * 24 * time.Hour
	left := min(c.Expires.Sub(c.Begins)/fifth, mostLeft)
	if c.Expires.Sub(now) > left {
		return nil
	}
	p := &inspect.Problem{
		Kind: inspect.KindCertificate, Object: cmp.Or(c.File, "certificate"), At: c.Expires.Add(-left),
		Fix: "the operator could not replace the certificate: see its log, and check that it may write its Secret",
	}
	if c.File != "" {
		p.Fix = "let the program that wrote the file renew it (cert-manager: kubectl get certificates -A). The operator reads the new file without a restart"
	}
	at := c.Expires.UTC().Format(time.RFC3339)
	p.Error = "the certificate of the webhooks expires in " + inspect.Span(c.Expires.Sub(now)) + ", at " + at + ": from then on, the API server calls no hook, and rejects the requests that hooks convert, or check with failurePolicy Fail"
	if !now.Before(c.Expires) {
		p.Error = "the certificate of the webhooks expired at " + at + ": the API server calls no hook, and rejects the requests that hooks convert, or check with failurePolicy Fail"
	}
	if c.File != "" {
		p.Error += " (" + c.File + ")"
	}
	return p
}
