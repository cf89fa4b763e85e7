package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"addon-operator/internal/hook"
	"addon-operator/internal/webhook"
)

func TestACertificateIsAProblemInTheLastFifthOfItsLifetime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		lifetime, left time.Duration
		want           string
	}{
		{90 * day, 30 * day, ""},
		{90 * day, 15 * day, ""},
		{90 * day, 13 * day, "expires in 13d00h, at 2026-06-14T00:00:00Z"},
		{10 * 365 * day, 100 * day, ""},
		{time.Hour, 20 * time.Minute, ""},
		{time.Hour, 10 * time.Minute, "expires in 10m00s, at 2026-06-01T00:10:00Z"},
		{time.Hour, -time.Minute, "expired at 2026-05-31T23:59:00Z"},
	} {
		for file, fix := range map[string]string{"": "write its Secret", "/certs/tls.crt": "let the program that wrote the file renew it"} {
			p := expiring(webhook.Serving{File: file, Begins: now.Add(c.left - c.lifetime), Expires: now.Add(c.left)}, now)
			switch {
			case p == nil:
				if c.want != "" {
					t.Errorf("%s left of %s: no problem", c.left, c.lifetime)
				}
			case c.want == "" || !strings.Contains(p.Error, c.want) || !strings.Contains(p.Error, file) || !strings.Contains(p.Fix, fix) || p.At.After(now):
				t.Errorf("%s left of %s: %+v", c.left, c.lifetime, p)
			}
		}
	}
}

func TestAFailingWebhookIsAProblemUntilItAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	asked := webhook.Asked{Module: "guard", Hook: "hooks/check.sh", Binding: "check"}
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"services"}},
	}}
	w := &Webhooks{Endpoint: webhook.NewEndpoint(webhook.EndpointOptions{})}
	serve := func(policy admissionv1.FailurePolicyType) {
		w.table = webhook.Table{Admissions: []webhook.Admission{{Asked: asked, Config: hook.AdmissionBinding{FailurePolicy: policy, Rules: rules}}}}
	}
	serve(admissionv1.Fail)
	report := func(result webhook.Result, err error) {
		w.failing.reviewed(webhook.Report{Asked: asked, Type: hook.TypeValidating, Result: result, Err: err}, now)
	}
	expect := func(at time.Time, want string) {
		t.Helper()
		got := ""
		for _, p := range w.Observed(at) {
			got += p.Error
		}
		if got != want {
			t.Errorf("problems: %q, want %q", got, want)
		}
	}
	const failed = "the API server rejects CREATE of services, because hook guard/hooks/check.sh failed at the last "
	expect(now, "")
	report(webhook.Broken, errors.New("no JSON"))
	report(webhook.TimedOut, fmt.Errorf("hook guard/hooks/check.sh: %w", context.Canceled))
	report(webhook.TimedOut, fmt.Errorf("hook guard/hooks/check.sh was not asked: 4 others %w", webhook.ErrBusy))
	expect(now, "")
	report(webhook.Failed, fmt.Errorf("%w: guard/hooks/check.sh check: exit status 1", webhook.ErrHookFailed))
	expect(now, failed+"request: exit status 1")
	report(webhook.TimedOut, errors.New("hook guard/hooks/check.sh: it did not answer within 2s"))
	expect(now, failed+"2 requests: it did not answer within 2s")
	expect(now.Add(time.Hour), "")
	serve(admissionv1.Ignore)
	expect(now, strings.Replace(failed, "rejects", "admits without a check", 1)+"2 requests: it did not answer within 2s")
	w.table = webhook.Table{}
	expect(now, "")
	serve(admissionv1.Fail)
	report(webhook.Denied, nil)
	expect(now, "")
	report(webhook.Failed, errors.New("exit status 1"))
	w.failing.reviewed(webhook.Report{Asked: webhook.Asked{Hook: "last.sh"}, Answered: []webhook.Asked{asked}, Result: webhook.Done}, now)
	expect(now, "")
}
