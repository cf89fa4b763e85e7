package source

import (
	"archive/tar"
	"compress/gzip"
	"errors"

	"addon-operator/internal/catalog"
)

// A packer packs the files of an addon's directory into an archive, so that callers get an archive from all kinds of
// repositories. The archive depends only on the names, the contents and the order of the files.
type packer struct {
	to     *spool
	zipped *gzip.Writer
	tar    *tar.Writer
	// entries is the number of files and directories. Their limit also ends the packing of a directory that contains a
	// link to a directory above it.
	entries int
}

// newPacker returns a packer. The maximum size of its archive is [Limits.Archive], plus an overhead for the maximum
// number of files.
func (f *Fetcher) newPacker() *packer {
	const overhead = 2 << 10 // of each file
	p := &packer{to: f.disk.newSpool("the directory of the addon", f.limits.Archive+int64(catalog.DefaultLimits.Entries)*overhead)}
	p.zipped, _ = gzip.NewWriterLevel(p.to, gzip.NoCompression) // the level is valid
	p.tar = tar.NewWriter(p.zipped)
	return p
}

// enter counts a file or a directory, and returns an error if there are too many. The archive has no entries for
// directories.
func (p *packer) enter() error {
	if p.entries++; p.entries > catalog.DefaultLimits.Entries {
		return invalid("the directory of the addon has more than the limit of %d files and directories", catalog.DefaultLimits.Entries)
	}
	return nil
}

func (p *packer) add(name string, data []byte) error {
	if err := p.enter(); err != nil {
		return err
	}
	if err := p.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := p.tar.Write(data)
	return err
}

// finish completes the archive and returns it. The argument err is the error of adding the files. If err is not nil,
// finish frees the archive and returns err.
func (p *packer) finish(err error) (*spool, error) {
	if err == nil {
		err = errors.Join(p.tar.Close(), p.zipped.Close())
	}
	if err != nil {
		p.to.Close()
		return nil, err
	}
	return p.to, nil
}
