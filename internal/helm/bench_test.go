package helm_test

import (
	"fmt"
	"testing"
)

// BenchmarkUnchangedLook measures the calls by which a converge finds that the release of a module is up to date. The
// release has 3 objects.
func BenchmarkUnchangedLook(b *testing.B) {
	k := start(b)
	r := small(b, "web")
	k.apply(b, r)
	for b.Loop() {
		m := k.render(b, r)
		s, err := k.Find(b.Context(), "web")
		if err != nil || s.Outdated(m.Checksum) {
			b.Fatal(s, err)
		}
		if missing, err := k.Missing(b.Context(), m.Objects); err != nil || len(missing) > 0 {
			b.Fatal(missing, err)
		}
	}
}

// BenchmarkInstall measures rendering and installing a release with 3 objects that do not exist yet.
func BenchmarkInstall(b *testing.B) {
	k := start(b)
	k.render(b, small(b, "first"))
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		r := small(b, fmt.Sprintf("web-%d", n))
		b.StartTimer()
		k.apply(b, r)
	}
}

// BenchmarkUpgrade measures rendering and upgrading a release with 3 objects, one of which has changed.
func BenchmarkUpgrade(b *testing.B) {
	k := start(b)
	r := small(b, "web")
	k.apply(b, r)
	n := 0
	for b.Loop() {
		n++
		k.apply(b, with(r, "size", fmt.Sprint(n)))
	}
}
