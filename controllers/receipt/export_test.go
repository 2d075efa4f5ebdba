// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt

// Sign signs whatever a payload says.
func Sign(payload []byte, keys ...PrivateKey) ([]byte, error) {
	e := &Envelope{PayloadType: PayloadType, Payload: payload}
	for _, key := range keys {
		e.sign(key)
	}
	return e.Encode()
}
