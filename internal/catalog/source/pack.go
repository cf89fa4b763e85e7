package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"addon-operator/internal/catalog"
)

const (
	// maxDeltaDepth is the maximum length of a chain of deltas, in which each delta is based on the one before. git
	// has the same limit.
	maxDeltaDepth = 4095
	// maxDeltaBytes is the maximum total size of the objects that are in memory while deltas are resolved. Deltas that
	// would exceed it are skipped.
	maxDeltaBytes = 32 << 20
	// inflation is the maximum total size of all objects after decompression, as a multiple of [Limits.Repository].
	inflation = 8
)

// A pack is an index of the git packfile in the field content. The index omits objects that are too large for an addon,
// and objects whose chain of deltas exceeds a limit.
type pack struct {
	content *spool
	objects []packObject
	byHash  map[plumbing.Hash]int32

	byOffset map[int64]int32
	onOffset map[int32][]int32         // indexes of deltas, by the index of their base
	onHash   map[plumbing.Hash][]int32 // indexes of deltas, by the hash of their base
	inMemory int64
	left     int64 // number of bytes that may still be decompressed before the pack is rejected
}

// A packObject says where an object is in the packfile, and what it is.
type packObject struct {
	offset int64
	size   int64 // size after decompression; for a delta, the size of the delta itself, not of the object that it makes
	kind   plumbing.ObjectType
	base   int32 // index of the base, for a resolved delta; otherwise -1
}

var errDamaged = failed("the server sent a damaged packfile")

// isDelta reports whether an object of this kind is stored as a difference to another object, its base.
func isDelta(kind plumbing.ObjectType) bool {
	return kind == plumbing.OFSDeltaObject || kind == plumbing.REFDeltaObject
}

// maxObject is the maximum size of an object that is read. No file of an addon may be larger.
var maxObject = catalog.DefaultLimits.File

// readPack indexes the objects of the packfile in content. The caller must not close content before it has finished
// using the pack.
func readPack(ctx context.Context, content *spool, limits Limits) (*pack, error) {
	p := &pack{
		content: content, byHash: map[plumbing.Hash]int32{}, byOffset: map[int64]int32{},
		onOffset: map[int32][]int32{}, onHash: map[plumbing.Hash][]int32{},
		left: limits.Repository * inflation,
	}
	if err := p.scan(ctx, limits); err != nil {
		return nil, err
	}
	for hash := range p.onHash {
		if i, ok := p.byHash[hash]; ok && p.onOffset[i] == nil {
			p.onOffset[i] = []int32{} // the object is the base of deltas, which all name it by hash
		}
	}
	for i := range p.onOffset {
		o := &p.objects[i]
		if isDelta(o.kind) || o.size > maxObject {
			continue
		}
		data, err := p.inflate(o)
		if err == nil {
			err = p.resolve(ctx, i, data, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	p.byOffset, p.onOffset, p.onHash = nil, nil, nil
	return p, nil
}

func (p *pack) scan(ctx context.Context, limits Limits) error {
	scanner := packfile.NewScanner(p.content.reader())
	_, count, err := scanner.Header()
	if err != nil {
		return errDamaged
	}
	if int64(count) > int64(limits.Objects) || count > math.MaxInt32 {
		return invalid("the repository has %d objects, more than the limit of %d", count, limits.Objects)
	}
	for range count {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := p.scanObject(scanner); err != nil {
			return err
		}
	}
	return nil
}

func (p *pack) scanObject(scanner *packfile.Scanner) error {
	header, err := scanner.NextObjectHeader()
	if err != nil {
		return errDamaged
	}
	if err := p.spend(header.Length); err != nil {
		return err
	}
	i := int32(len(p.objects))
	o := packObject{offset: header.Offset, size: header.Length, kind: header.Type, base: -1}
	p.byOffset[header.Offset] = i
	p.objects = append(p.objects, o)

	var hasher plumbing.Hasher
	to := io.Discard
	switch header.Type {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		hasher = plumbing.NewHasher(header.Type, header.Length)
		to = hasher
	case plumbing.OFSDeltaObject:
		base, ok := p.byOffset[header.OffsetReference]
		if !ok || base == i {
			return errDamaged
		}
		p.onOffset[base] = append(p.onOffset[base], i)
	case plumbing.REFDeltaObject:
		p.onHash[header.Reference] = append(p.onHash[header.Reference], i)
	default:
		return errDamaged
	}
	if n, _, err := scanner.NextObject(to); err != nil || n != header.Length {
		return errDamaged
	}
	if !isDelta(header.Type) && header.Length <= maxObject {
		p.byHash[hasher.Sum()] = i
	}
	return nil
}

// spend subtracts n bytes from p.left. spend returns an error if fewer than n bytes are left.
func (p *pack) spend(n int64) error {
	if n < 0 || n > p.left {
		return invalid("the repository expands to more than its limit")
	}
	p.left -= n
	return nil
}

// resolve indexes the objects that deltas make from the object base, whose content is data, and then resolves the
// deltas that are based on these objects. depth is the length of the chain of deltas so far.
func (p *pack) resolve(ctx context.Context, base int32, data []byte, depth int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if depth > maxDeltaDepth || p.inMemory+int64(len(data)) > maxDeltaBytes {
		return nil
	}
	p.inMemory += int64(len(data))
	defer func() { p.inMemory -= int64(len(data)) }()
	kind := p.kind(base)
	hash := plumbing.ComputeHash(kind, data)
	waiting := p.onHash[hash]
	delete(p.onHash, hash) // otherwise a cycle of deltas would be resolved again and again
	for _, i := range append(p.onOffset[base], waiting...) {
		o := &p.objects[i]
		o.base = base
		target, err := p.apply(data, o)
		if err != nil {
			return err
		}
		if target == nil {
			continue
		}
		p.byHash[plumbing.ComputeHash(kind, target)] = i
		if err := p.resolve(ctx, i, target, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// kind returns the type of the object with index i. If it is a resolved delta, the type is that of its base.
func (p *pack) kind(i int32) plumbing.ObjectType {
	for p.objects[i].base >= 0 {
		i = p.objects[i].base
	}
	return p.objects[i].kind
}

// apply returns the content of the object that delta makes from base. If the object or the delta is larger than
// maxObject, apply returns nil.
func (p *pack) apply(base []byte, delta *packObject) ([]byte, error) {
	if delta.size > maxObject {
		return nil, nil
	}
	changes, err := p.inflate(delta)
	if err != nil {
		return nil, err
	}
	_, n := binary.Uvarint(changes) // skip the size of the base
	if n <= 0 {
		return nil, errDamaged
	}
	target, n := binary.Uvarint(changes[n:])
	if n <= 0 {
		return nil, errDamaged
	}
	if target > uint64(maxObject) {
		return nil, nil
	}
	if err := p.spend(int64(target)); err != nil {
		return nil, err
	}
	out, err := packfile.PatchDelta(base, changes)
	if err != nil {
		return nil, errDamaged
	}
	return out, nil
}

// inflate returns the decompressed content of an object or a delta. Its size must not exceed maxObject.
func (p *pack) inflate(o *packObject) ([]byte, error) {
	scanner := packfile.NewScanner(p.content.reader())
	if _, err := scanner.SeekObjectHeader(o.offset); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(make([]byte, 0, o.size))
	if n, _, err := scanner.NextObject(out); err != nil || n != o.size {
		return nil, errDamaged
	}
	return out.Bytes(), nil
}

// object returns the content of the object with this hash. It is an error if the object is of another kind.
func (p *pack) object(hash plumbing.Hash, kind plumbing.ObjectType) ([]byte, error) {
	i, ok := p.byHash[hash]
	if !ok {
		return nil, invalid("an object of the repository is missing or larger than the limit of %s", size(maxObject))
	}
	if p.kind(i) != kind {
		return nil, errDamaged
	}
	p.left = math.MaxInt64 // readPack has checked the total size already
	var deltas []int32
	for p.objects[i].base >= 0 {
		deltas = append(deltas, i)
		i = p.objects[i].base
	}
	data, err := p.inflate(&p.objects[i])
	for at := len(deltas) - 1; at >= 0 && err == nil; at-- {
		data, err = p.apply(data, &p.objects[deltas[at]])
	}
	return data, err
}
