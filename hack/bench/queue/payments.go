// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
)

var (
	givenNames = []string{
		"Anna", "Jonas", "Fatima", "Luca", "Marta", "Piotr", "Ines", "Emil", "Sofia", "Tomasz", "Clara", "Yusuf", "Elena",
		"Mateo", "Ingrid", "Hugo", "Katarina", "Nikolai", "Aylin", "Samuel",
	}
	familyNames = []string{
		"Andersson", "Moreau", "Kowalski", "Schneider", "Rossi", "Yilmaz", "Jansen", "Novak", "Fernandes", "Lindqvist",
		"Dubois", "Horvat", "Petrov", "Keller", "Bianchi", "Nielsen", "Okafor", "Virtanen", "Garcia", "O'Connell",
	}
	banks    = []string{"DEUTDEFF", "BNPAFRPP", "INGBNL2A", "UNCRITMM", "BREXPLPW", "NDEASESS", "KBCBBEBB", "CAIXESBB"}
	purposes = []string{"SALA", "SUPP", "RENT", "TAXS", "PENS", "GDDS"}
)

// payments are messages of banks, in the way of pacs.008 of ISO 20022, of about length bytes: each has as many
// transfers as fit. Names, accounts, amounts and references are random. No code that trains or uses dictionaries was
// tuned by them.
func payments(seed uint64, n, length int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 0x7061_796d_656e_7473))
	all := make([][]byte, n)
	for i := range all {
		all[i] = payment(r, 7_300_000+i, length)
	}
	return all
}

func payment(r *rand.Rand, number, length int) []byte {
	pick := func(of []string) string { return of[r.IntN(len(of))] }
	party := func(role string) string {
		return fmt.Sprintf(`<%s><Nm>%s %s</Nm></%s><%sAcct><Id><IBAN>%s%02d%018d</IBAN></Id></%sAcct>`,
			role, pick(givenNames), pick(familyNames), role,
			role, pick([]string{"DE", "FR", "NL", "PL"}), r.IntN(98), r.Int64N(1e18), role)
	}
	day := fmt.Sprintf("2026-%02d-%02d", 1+r.IntN(12), 1+r.IntN(28))
	b := fmt.Appendf(nil, `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pacs.008.001.10"><FIToFICstmrCdtTrf><GrpHdr>`+
		`<MsgId>HB%d</MsgId><CreDtTm>%sT%02d:%02d:%02d</CreDtTm><SttlmInf><SttlmMtd>CLRG</SttlmMtd></SttlmInf></GrpHdr>`,
		number, day, r.IntN(24), r.IntN(60), r.IntN(60))
	const end, transfer = `</FIToFICstmrCdtTrf></Document>`, 800 // bytes of one, about
	for one := 0; one == 0 || len(b)+transfer+len(end) <= length; one++ {
		b = fmt.Appendf(b, `<CdtTrfTxInf><PmtId><EndToEndId>E%09d</EndToEndId>`+
			`<UETR>%08x-%04x-4%03x-a%03x-%012x</UETR></PmtId>`+
			`<IntrBkSttlmAmt Ccy="EUR">%d.%02d</IntrBkSttlmAmt><IntrBkSttlmDt>%s</IntrBkSttlmDt><ChrgBr>SLEV</ChrgBr>`,
			r.IntN(1e9), r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48),
			r.IntN(20_000), r.IntN(100), day)
		b = append(b, party("Dbtr")...)
		b = fmt.Appendf(b, `<DbtrAgt><FinInstnId><BICFI>%s</BICFI></FinInstnId></DbtrAgt>`+
			`<CdtrAgt><FinInstnId><BICFI>%s</BICFI></FinInstnId></CdtrAgt>`, pick(banks), pick(banks))
		b = append(b, party("Cdtr")...)
		b = fmt.Appendf(b, `<Purp><Cd>%s</Cd></Purp><RmtInf><Ustrd>Invoice %d</Ustrd></RmtInf></CdtTrfTxInf>`, pick(purposes),
			100_000+r.IntN(900_000))
	}
	return append(b, end...)
}
