package catalog_test

import (
	"bytes"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/catalog"
)

func TestPackedDirectoryHasTheSameBytesWheneverItIsPacked(t *testing.T) {
	t.Parallel()
	first, touched := files(addon(nil)), files(addon(nil))
	for name := range touched {
		touched[name] = &fstest.MapFile{Data: touched[name].Data, Mode: 0o600, ModTime: time.Unix(1e9, 0)}
	}
	packed, err := catalog.Pack(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := catalog.Pack(touched)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(packed, again) {
		t.Error("the archive depends on more than names and data")
	}
	fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(packed), catalog.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(addon(nil), texts(t, fsys)); diff != "" {
		t.Error(diff)
	}
}

func TestDigestOfAnAddonDependsOnItsFilesOnly(t *testing.T) {
	t.Parallel()
	digest := func(changed map[string]string) string {
		fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(archiveOf(t, addon(changed))), catalog.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := catalog.Digest(fsys)
		if err != nil {
			t.Fatal(err)
		}
		direct, err := catalog.Digest(files(addon(changed)))
		if err != nil {
			t.Fatal(err)
		}
		if unpacked != direct {
			t.Errorf("%v: archive %s, directory %s", changed, unpacked, direct)
		}
		return direct
	}
	seen := map[string]map[string]string{}
	for _, changed := range []map[string]string{
		nil, {"meta.yaml": "x"}, {"meta.yam": "lx", "meta.yaml": ""}, {"a": "b", "c": "d"}, {"a": "b 1 c 1 d"}, {"ac": "bd"},
	} {
		sum := digest(changed)
		if other, taken := seen[sum]; taken {
			t.Errorf("%v and %v have the same digest", changed, other)
		}
		seen[sum] = changed
	}
}
