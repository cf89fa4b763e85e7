package store

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAKeyComesApartAsItWasPutTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := Table(rapid.ByteRange(1, byte(len(tables)-1)).Draw(t, "table"))
		s, other := rapid.String().Draw(t, "s"), rapid.String().Draw(t, "other")
		n, small := rapid.Uint64().Draw(t, "n"), rapid.Uint32().Draw(t, "small")
		base := At(table).Str(s)
		k := base.Uint(n).Uint32(small).Str(other)
		base.Uint(n + 1) // must not change base and k
		if k.Table() != table {
			t.Fatalf("table %s", k.Table())
		}
		p, err := k.Parts()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Str(); got != s {
			t.Fatalf("%q came back as %q", s, got)
		}
		if got := p.Uint(); got != n {
			t.Fatalf("%d came back as %d", n, got)
		}
		if got := p.Uint32(); got != small {
			t.Fatalf("%d came back as %d", small, got)
		}
		if got := p.Str(); got != other || p.More() || p.Err() != nil {
			t.Fatalf("%q came back as %q, more %t, error %v", other, got, p.More(), p.Err())
		}
		if p.Str() != "" || p.Uint() != 0 || p.Uint32() != 0 || p.Err() == nil {
			t.Fatal("a part that is not there was found")
		}
	})
}

func TestKeysSortByTheirNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		ka, kb := At(Queues).Str("main").Uint(a), At(Queues).Str("main").Uint(b)
		if got, want := bytes.Compare(ka, kb), cmp.Compare(a, b); got != want {
			t.Fatalf("%d and %d compare %d as numbers, %d as keys", a, b, want, got)
		}
	})
}

func TestAStringsKeysDoNotReachIntoAnothers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if a != b && bytes.HasPrefix(At(Queues).Str(b).Uint(1), At(Queues).Str(a)) {
			t.Fatalf("the keys of %q are among those of %q", b, a)
		}
	})
}

func TestTheEndOfAPrefixIsBehindItsKeysAndNoOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefix := Key(rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff})).Draw(t, "prefix"))
		k := Key(rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff})).Draw(t, "key"))
		end := prefix.end()
		in := bytes.Compare(k, prefix) >= 0 && (end == nil || bytes.Compare(k, end) < 0)
		if in != bytes.HasPrefix(k, prefix) {
			t.Fatalf("%x begins with %x: %t; lies below %x: %t", k, prefix, !in, end, in)
		}
	})
}

func TestAKeyShowsItsParts(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]Key{
		"queues/main/5/4294967295":    At(Queues).Str("main").Uint(5).Uint32(1<<32 - 1),
		"queues/main":                 At(Queues).Str("main"),
		"meta":                        At(Meta),
		"modules/0x0005":              append(At(Modules), 0, 5),
		"meta/0x00016100":             append(At(Meta).Str("a"), 0),
		"table(200)/0x01":             {200, 1},
		"table(0)/0x":                 nil,
		"history/1/2/3":               At(History).Uint(1).Uint(2).Uint(3),
		"unique/main/run/module/hook": At(Unique).Str("main").Str("run").Str("module").Str("hook"),
	} {
		if got := k.String(); got != want {
			t.Errorf("%x shows as %q, want %q", []byte(k), got, want)
		}
	}
	if k := At(Meta).Str(strings.Repeat("x", 70_000)); len(k) <= maxKey {
		t.Errorf("a string of 70,000 bytes makes a key of %d that can be written", len(k))
	}
}

func TestTablesAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	for i := range tables {
		table := Table(i)
		if got, err := ParseTable(table.String()); i > 0 && (err != nil || got != table) {
			t.Errorf("%s is found as %s, %v", table, got, err)
		}
	}
	for _, name := range []string{"", "Meta", "table(0)"} {
		if got, err := ParseTable(name); err == nil {
			t.Errorf("%q is found as %s", name, got)
		}
	}
}

func TestAnOptionalPartIsAddedUnlessItIsEmpty(t *testing.T) {
	t.Parallel()
	k := At(Problems).Str("kind")
	if got := k.Opt(""); !bytes.Equal(got, k) {
		t.Errorf("%s, want %s", got, k)
	}
	if got, want := k.Opt("team/addons"), k.Str("team/addons"); !bytes.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPartsOfAKeyThatIsCutOffAreErrors(t *testing.T) {
	t.Parallel()
	whole := At(Queues).Str("main").Uint(7).Uint32(9)
	for n := range whole {
		k := whole[:n]
		p, err := k.Parts()
		if n == 0 {
			if err == nil {
				t.Error("an empty key has parts")
			}
			continue
		}
		_, _, _ = p.Str(), p.Uint(), p.Uint32()
		if p.Err() == nil || p.More() {
			t.Errorf("of %d of %d bytes, all parts are read", n, len(whole))
		}
		if _, err := ParsePos(k); err == nil {
			t.Errorf("of %d of %d bytes, a position is read", n, len(whole))
		}
	}
}
