package webhook

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A sides fixture has an endpoint that is updated without a running registrar.
type sides struct {
	*Endpoint
	t       *testing.T
	running sync.WaitGroup
	failed  int // number of reported errors
}

func newSides(t *testing.T, o EndpointOptions) *sides {
	t.Helper()
	s := &sides{t: t}
	o.Registrar.Clock, o.Failed = time.Now, func(error) { s.failed++ }
	o.Admission.Address, o.Conversion.Address = "127.0.0.1", "127.0.0.1"
	s.Endpoint = NewEndpoint(o)
	t.Cleanup(func() {
		s.running.Wait() // t.Context() has ended
		s.Stop(context.Background())
	})
	return s
}

// want updates the endpoint with the table, and checks its sides. The argument open has the sides that must listen, and
// the argument served has the sides whose webhooks may be registered.
func (s *sides) want(when string, table Table, open, served []string) {
	s.t.Helper()
	s.Serve(table)
	s.failed = 0
	again := s.update(s.t.Context(), &s.running, newRetry())
	var gotOpen, gotServed []string
	for _, side := range []struct {
		name string
		side *side
		at   Place
	}{{"admission", &s.admission, s.registrar.want.Admission}, {"conversion", &s.conversion, s.registrar.want.Conversion}} {
		if side.side.port != 0 {
			gotOpen = append(gotOpen, side.name)
		}
		if side.at.isServed() {
			gotServed = append(gotServed, side.name)
		}
	}
	if diff := cmp.Diff(open, gotOpen); diff != "" {
		s.t.Errorf("%s: open sides (-want +got):\n%s", when, diff)
	}
	if diff := cmp.Diff(served, gotServed); diff != "" {
		s.t.Errorf("%s: served sides (-want +got):\n%s", when, diff)
	}
	w := s.registrar.want
	failed := len(table.Admissions) > 0 && !w.Admission.isServed() || len(table.Conversions) > 0 && !w.Conversion.isServed()
	if failed != (again > 0) || failed != (s.failed == 1) {
		s.t.Errorf("%s: the next attempt is in %s, and %d errors are reported", when, again, s.failed)
	}
}

func TestASideIsOpenedWhenABindingNeedsItAndDoesNotWaitForTheOther(t *testing.T) {
	t.Parallel()
	admissions := Table{Admissions: []Admission{admission("a.example.com", false)}}
	conversions := Table{Conversions: conversionsOf([2]string{"v1", "v2"})}
	both := Table{Admissions: admissions.Admissions, Conversions: conversions.Conversions}
	first, second, all := []string{"admission"}, []string{"conversion"}, []string{"admission", "conversion"}
	taken := func(t *testing.T) (port int, release func()) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, text, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if port, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		release = func() { _ = l.Close() }
		t.Cleanup(release)
		return port, release
	}
	files := func(t *testing.T) Files {
		t.Helper()
		return writePair(t, t.TempDir(), newTestAuthority(t))
	}
	t.Run("as bindings are attached", func(t *testing.T) {
		t.Parallel()
		s := newSides(t, EndpointOptions{Admission: Side{Files: files(t)}, Conversion: Side{Files: files(t)}})
		s.want("no binding", Table{}, nil, nil)
		s.want("an admission", admissions, first, first)
		s.want("a conversion, too", both, all, all)
		s.want("no binding is left", Table{}, all, all)
	})
	t.Run("the conversion port is in use", func(t *testing.T) {
		t.Parallel()
		port, release := taken(t)
		s := newSides(t, EndpointOptions{Admission: Side{Files: files(t)}, Conversion: Side{Port: port, Files: files(t)}})
		s.want("no binding needs it", admissions, first, first)
		s.want("a binding needs it", both, first, first)
		s.registrar.altered = false
		s.want("it is still in use", both, first, first)
		if s.registrar.altered {
			t.Error("an attempt to open the port ends the delays of the registrar")
		}
		release()
		s.want("it is free", both, all, all)
	})
	t.Run("the admission port is in use", func(t *testing.T) {
		t.Parallel()
		port, release := taken(t)
		s := newSides(t, EndpointOptions{Admission: Side{Port: port, Files: files(t)}, Conversion: Side{Files: files(t)}})
		s.want("no binding needs it", conversions, second, second)
		s.want("a binding needs it", both, second, second)
		release()
		s.want("it is free", both, all, all)
	})
	t.Run("the files of a side are missing", func(t *testing.T) {
		t.Parallel()
		missing := t.TempDir()
		s := newSides(t, EndpointOptions{Admission: Side{Files: files(t)}, Conversion: Side{Files: Files{
			filepath.Join(missing, "tls.crt"), filepath.Join(missing, "tls.key"), filepath.Join(missing, "ca.crt"),
		}}})
		s.want("without files", both, first, first)
		writePair(t, missing, newTestAuthority(t))
		s.want("with files", both, all, all)
	})
	t.Run("one address for both sides", func(t *testing.T) {
		t.Parallel()
		s := newSides(t, EndpointOptions{URL: "https://127.0.0.1:9680", Admission: Side{Files: files(t)}})
		s.want("a conversion", conversions, first, all)
	})
}
