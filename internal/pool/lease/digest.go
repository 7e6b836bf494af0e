package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// keyName is the file with the key of Digest. It is below /run, so that digests of
// different boots cannot be compared.
const keyName = "digest-key"

// keySize is the size of a SipHash key.
const keySize = 16

// Digest returns a keyed hash of texts. Only root can read the key, so other users cannot
// find a text by trying. The texts are never stored.
func (l Leases) Digest(texts ...string) (string, error) {
	dir, err := l.createDir()
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	key, err := l.digestKey(dir)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", l.path(keyName), err)
	}
	var data []byte
	for _, t := range texts { // with lengths, so that no two lists give the same bytes
		data = append(binary.LittleEndian.AppendUint64(data, uint64(len(t))), t...)
	}
	return strconv.FormatUint(sipHash(key, data), 16), nil
}

// digestKey reads the key, and makes it if it is missing or was cut off by a kill.
func (l Leases) digestKey(dir int) (key [keySize]byte, err error) {
	for range 2 {
		fd, err := openFile(dir, keyName)
		if err == nil {
			data, failed := pread(fd, make([]byte, keySize))
			unix.Close(fd)
			if failed != nil {
				return key, failed
			}
			if len(data) == keySize {
				return [keySize]byte(data), nil
			}
		} else if !errors.Is(err, unix.ENOENT) {
			return key, err
		}
		if err := l.makeKey(dir); err != nil {
			return key, err
		}
	}
	return key, errors.New("it was made and is not there")
}

// makeKey writes a whole key and then gives it its name. If two processes do so at once,
// both read the last key.
func (l Leases) makeKey(dir int) error {
	var key [keySize]byte
	if n, err := unix.Getrandom(key[:], 0); err != nil || n != keySize {
		return fmt.Errorf("no random bytes: %w", err)
	}
	temp := "%" + keyName + strconv.Itoa(os.Getpid()) // no GPU has a %
	l.before("make", keyName)
	fd, err := createFile(dir, temp)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := pwrite(fd, key[:]); err != nil {
		return err
	}
	l.before("rename", keyName)
	return unix.Renameat(dir, temp, dir, keyName)
}

// sipHash computes SipHash-2-4, a keyed hash for short texts (Aumasson, Bernstein: "SipHash:
// a fast short-input PRF"). The wrapper starts for each call of runc, and the packages below
// crypto take a third of a millisecond to start.
func sipHash(key [keySize]byte, data []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[2] += v[3]
			v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
			v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[1]
			v[0] += v[3]
			v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
			v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	add := func(m uint64) {
		v[3] ^= m
		rounds(2)
		v[0] ^= m
	}
	length := uint64(len(data))
	for ; len(data) >= 8; data = data[8:] {
		add(binary.LittleEndian.Uint64(data))
	}
	var last [8]byte
	copy(last[:], data)
	add(binary.LittleEndian.Uint64(last[:]) | length<<56)
	v[2] ^= 0xff
	rounds(4)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}
