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
	// maxDeltaDepth is the maximum length of a chain of deltas. git has the same limit.
	maxDeltaDepth = 4095
	// maxDeltaBytes limits the bytes of objects that are in memory while deltas are resolved. Deltas that would
	// exceed the limit are skipped.
	maxDeltaBytes = 32 << 20
	// inflation is the ratio of two limits: of the size of all uncompressed objects together, and of the repository.
	inflation = 8
)

// A pack is a git packfile: objects by hash, without those that are too large for an addon.
type pack struct {
	content *spool
	objects []packObject
	byHash  map[plumbing.Hash]int32

	byOffset map[int64]int32
	onOffset map[int32][]int32         // deltas by the index of their base
	onHash   map[plumbing.Hash][]int32 // deltas by the hash of their base
	inMemory int64
	left     int64 // number of bytes of objects that may still be read before the pack is rejected
}

// A packObject is the position of an object in a pack.
type packObject struct {
	offset int64
	size   int64 // uncompressed size; for a delta, the size of the delta itself
	kind   plumbing.ObjectType
	base   int32 // index of the base of a resolved delta; -1 for other objects
}

var errDamaged = failed("the server sent a damaged packfile")

// isDelta reports whether objects of this kind are stored as a difference to another object.
func isDelta(kind plumbing.ObjectType) bool {
	return kind == plumbing.OFSDeltaObject || kind == plumbing.REFDeltaObject
}

// maxObject is the maximum size of objects that are read, because no file of an addon may be larger.
var maxObject = catalog.DefaultLimits.File

// readPack indexes the objects of the packfile in content. Closing the pack closes content.
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
			p.onOffset[i] = []int32{} // its only deltas refer to it by hash
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

// spend subtracts n bytes of objects from p.left. It returns an error if the limit is exceeded.
func (p *pack) spend(n int64) error {
	if n < 0 || n > p.left {
		return invalid("the repository expands to more than its limit")
	}
	p.left -= n
	return nil
}

// resolve computes the hash of object base, whose content is data, and then resolves the deltas of this object.
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
	delete(p.onHash, hash) // so that a cycle is not resolved twice
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

// kind returns the type of an object; a delta has the type of its base.
func (p *pack) kind(i int32) plumbing.ObjectType {
	for p.objects[i].base >= 0 {
		i = p.objects[i].base
	}
	return p.objects[i].kind
}

// apply returns the object that delta makes from base. If the object or the delta is too large, apply returns nil.
func (p *pack) apply(base []byte, delta *packObject) ([]byte, error) {
	if delta.size > maxObject {
		return nil, nil
	}
	changes, err := p.inflate(delta)
	if err != nil {
		return nil, err
	}
	_, n := binary.Uvarint(changes) // the size of the base
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

// inflate decompresses an object or a delta of at most maxObject bytes.
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

// object returns the content of the object with this hash, which must be of this kind.
func (p *pack) object(hash plumbing.Hash, kind plumbing.ObjectType) ([]byte, error) {
	i, ok := p.byHash[hash]
	if !ok {
		return nil, invalid("an object of the repository is missing or larger than the limit of %s", size(maxObject))
	}
	if p.kind(i) != kind {
		return nil, errDamaged
	}
	p.left = math.MaxInt64 // the objects of the pack are already counted
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
