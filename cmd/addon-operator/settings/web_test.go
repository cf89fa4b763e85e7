package settings

import (
	"strings"
	"testing"
)

func TestWebPageIsServedToOtherMachinesWithACertificateOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		given Web
		wrong string
	}{
		{Web{}, ""},
		{Web{Address: "127.0.0.1:9116"}, ""},
		{Web{Address: "localhost:1"}, ""},
		{Web{Address: "[::1]:9116"}, ""},
		{Web{Address: "0.0.0.0:9116", CertFile: "c", KeyFile: "k"}, ""},
		{Web{Address: "0.0.0.0:9116"}, "--web-tls-cert-file"},
		{Web{Address: ":9116"}, "--web-tls-cert-file"},
		{Web{Address: "10.1.2.3:9116"}, "--web-tls-cert-file"},
		{Web{Address: "127.0.0.1:9116", CertFile: "c"}, "must be set together"},
		{Web{Address: "127.0.0.1:9116", KeyFile: "k"}, "must be set together"},
		{Web{Address: "nonsense"}, "must be HOST:PORT"},
	} {
		err := test.given.check()
		if (err == nil) != (test.wrong == "") || err != nil && (!isError(err) || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%+v: %v, want %q", test.given, err, test.wrong)
		}
	}
	s := parse(t)
	if s.Web != (Web{Address: "127.0.0.1:9116"}) {
		t.Errorf("the default is %+v", s.Web)
	}
}
