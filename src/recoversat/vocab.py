"""The special token ids, fixed here and nowhere else."""

PAD = 0  # fills arrays; never visible, never predicted
BOS = 1  # input of the first row of every segment
EOS = 2  # "this segment is complete" (dynamic termination)
UNK = 3  # a token the tokenizer does not know; never predicted
DEL = 4  # "this segment is a repetition, drop it" (segment deletion)

MASK = BOS  # of CMLM: the token of this place is not known yet
BLANK = DEL  # of CTC: this place writes nothing; the last special token, so that one bound leaves out the others

SPECIAL_PIECES = ("<pad>", "<s>", "</s>", "<unk>", "<del>")
N_SPECIAL = len(SPECIAL_PIECES)
NEVER_EMITTED = (PAD, BOS, UNK)
TERMINATORS = (EOS, DEL)
