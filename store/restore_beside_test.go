package store

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFilesBesideAStoreAreFoundWhateverItsPathIs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `[a]*\`)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "store?.db")
	for _, name := range []string{"store?.db", "store?.db.cluster-2", "store?.db.cluster-1", "store?.db.ballast", "storeX.db.cluster-3", "other.cluster-4"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Beside(path, ".cluster-*")
	if diff := cmp.Diff([]string{path + ".cluster-1", path + ".cluster-2"}, found); diff != "" || err != nil {
		t.Errorf("the error is %v; found (-want +got):\n%s", err, diff)
	}
	if found, err := Beside(path, ".snapshot-*Z"); err != nil || found != nil {
		t.Errorf("found %q, and the error is %v", found, err)
	}
	if _, err := Beside(filepath.Join(dir, "missing", "store.db"), "*"); !os.IsNotExist(err) {
		t.Errorf("in a directory that does not exist, the error is %v", err)
	}
	if found, err := Beside("restore", "_beside_test.go"); err != nil || !slices.Equal(found, []string{"restore_beside_test.go"}) {
		t.Errorf("in the working directory, found %q, and the error is %v", found, err)
	}
}
