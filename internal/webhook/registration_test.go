package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestURLOfWebhooksIsOneThatTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	for url, c := range map[string]struct {
		valid  bool
		called string // for port 9680
		both   bool   // for admissions and conversions
	}{
		"https://10.0.0.1":              {true, "https://10.0.0.1:9680", false},
		"https://10.0.0.1/":             {true, "https://10.0.0.1:9680", false},
		"https://10.0.0.1:8443/":        {true, "https://10.0.0.1:8443", true},
		"https://operator.example.com":  {true, "https://operator.example.com:9680", false},
		"https://[2001:db8::1]":         {true, "https://[2001:db8::1]:9680", false},
		"https://[2001:db8::1]:8443":    {true, "https://[2001:db8::1]:8443", true},
		"http://10.0.0.1":               {},
		"10.0.0.1:8443":                 {},
		"https://":                      {},
		"https://:8443":                 {},
		"https://10.0.0.1/hooks":        {},
		"https://10.0.0.1?x=y":          {},
		"https://10.0.0.1:https":        {},
		"https://10.0.0.1#x":            {},
		"https://ann:hunter2@10.0.0.1/": {},
	} {
		err := CheckURL(url)
		if (err == nil) != c.valid {
			t.Errorf("%s: error %v", url, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "must be https://HOST or https://HOST:PORT") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: error %v", url, err)
		}
		o := EndpointOptions{URL: url}
		if c.valid && (o.urlOf(9680) != c.called || o.oneSided() != c.both) {
			t.Errorf("%s: the API server calls %s, for both sides: %t", url, o.urlOf(9680), o.oneSided())
		}
	}
	if err := CheckURL(""); err != nil {
		t.Errorf("without a URL: %v", err)
	}
	g := &Endpoint{options: EndpointOptions{
		URL: "https://10.0.0.1:8443", Admission: Side{Service: "validating"}, Conversion: Side{Service: "conversion"}, Registrar: RegistrarOptions{Namespace: "ops"},
	}}
	if diff := cmp.Diff([]string{"validating.ops.svc", "validating.ops", "conversion.ops.svc", "conversion.ops", "10.0.0.1"}, g.hosts()); diff != "" {
		t.Errorf("names in the certificate (-want +got):\n%s", diff)
	}
}
