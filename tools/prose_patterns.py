"""The phrases that tools/check_prose refuses. The list grows: a phrase that made somebody stumble gets a line here, and a sentence in each list of
tests/tools/check_prose_test.py. The patterns know no grammar. Good English must pass, so a pattern that refuses some is made narrower or dropped."""

import re

# The words that may be a sentence's verb. A word too many lets a fragment through; one that is missing refuses a sentence.
PLURALS = """adapters arguments axes bits blocks bytes callers cards channels checks clips columns components configs copies dims dtypes errors
    experts fields files folders formats frames functions groups heads images inputs items jobs keys kernels latents layers libraries lines
    lists losses machines masks matrices messages models modules names norms numbers options ops others outputs packs pages pairs parts passes
    paths pictures pieces pixels plans points presets prompts programs ranges ranks readers requests results rows runs samplers samples scales
    scores seconds sessions settings shapes shards sigmas sizes slots speakers stages steps strides sums switches systems tables tensors tests
    texts things threads tiles times timesteps tokens tools units users values variants videos warps ways weights widths windows words workers
    worlds always anywhere besides bias is's perhaps sometimes this those these thus its towards whose across less unless axis basis class gpus
    cpus""".split()
VERB = r"""(?:is|are|was|were|be|has|have|had|do|does|did|can|cannot|could|may|might|must|will|would|shall|should|isn't|aren't|
    (?:need|want|make|take|give|go|come|keep|hold|lie|read|write|say|tell|know|see|find|follow|begin|end|run|fit|count|change|stay|become|
    get|leave|look|use|work|show|mean|name|ask|add|reach|refuse|belong|depend|differ|cost|pass|serve|share|apply|happen|matter|wait|load|call|
    compute|hear|let|move|copy|store|pick|choose|start|stop|open|close|print|expect|accept|send|receive|draw|carry|lack|contain|return|report|
    measure|allow|produce|require|publish|rely|wish|press|decide|care|learn|play|train|multiply|divide)s?|goes|passes|reaches|
    made|took|gave|went|came|kept|held|lay|wrote|said|told|knew|saw|found|began|ran|became|got|left|meant|chose|drew|sent|led|lost|won|built|
    brought|thought|felt|heard|stood|spent|broke|spoke|drove|rose|fell|grew|threw|\w+ed|
    (?!(?:""" + "|".join(PLURALS) + r""")\b)(?<!\ba\ )(?<!\ban\ )(?<!\bthe\ )(?<!\bof\ )(?<!\bits\ )(?<!\ball\ )(?<!\bno\ )\w*[a-rt-z]s)\b(?!['’])"""
VERB = re.sub(r"\n\s*", "", VERB)
OTHER = rf"(?!{VERB})[^\s.:;?!]+(?:[.:][^\s.:;?!]+)*"  # another word; the dots inside file names and numbers belong to it
CHAIN = (r"(?:(?:can|cannot|could|may|might|must|will|would|shall|should|do|does|did|is|are|was|were|has|have|had)"
         r"(?: not| also| only| then| now| never| all| been)?"
         rf"(?: (?!is\b|are\b|was\b|were\b|has\b|must\b|may\b|can\b){VERB})?|{VERB})")  # a verb with its auxiliaries
JOINS = r"(?:that|which|who|where|when|if|unless|while|whose|because|what|how|whether)"
PLAIN = rf"(?:(?:of|on|by|to|in|for|with|from|than|but|like|at) (?:that|which|what|whom)|(?!{JOINS}\b){OTHER})"
PARTS = rf"(?: (?:{PLAIN}|{JOINS}(?: {PLAIN})* {CHAIN}))*"  # words, and clauses that have a verb of their own
NO_PREPOSITION = "(?<! for)(?<! of)(?<! by)(?<! with)(?<! on)(?<! in)(?<! at)(?<! to)(?<! from)"
BARE = (r"(?:file|line|column|row|layer|shape|model|device|prompt|seed|page|server|request|key|value|path|folder|image|picture|frame|block|tensor"
        r"|buffer|stream|kernel|machine|window|scale|weight|matrix|mask|offset|reason|member|option|message|step|head|token|bias|width|height"
        r"|gate|dtype|sampler|byte|decoder|encoder|transformer|tokenizer|mouse|keyboard|formula|command|commit)")
UNIT = (r"(?:row|token|piece|entry|phase|layer|block|head|channel|frame|job|prompt|stage|subject|folder|value|message|unit|step|list|rank|score"
        r"|thread|warp|lane|column|key|query|tile|chunk|file|tensor|sample|pixel|plane|window|module|matrix|op|call|run|request|session|device"
        r"|cluster|model|adapter|line|speaker|byte|group|pass|kernel|launch|case|shape|seed|slot|family)")
NO_NOUN = (r"(?:longer|more|less|way|need|one|different|problem|wonder|use|good|help|secret|matter|surprise|accident|coincidence|reason|guarantee"
           r"|excuse|small|easy|mean|great|big|new|\w+er)")
START = r"(?:^|(?<=[.!?] )|(?<=[.!?]\) ))"
CLAUSE_END = r"(?=[.,;:)]|$| (?:and|in|at|with|for|by|as|that|or|from)\b)"

# The name of each pattern, what it refuses, and what to write instead. Texts in quotes and backticks are not checked.
PATTERNS = [
    ("what-fragment", rf"{START}What{PARTS}{NO_PREPOSITION} {CHAIN}{PARTS}(?:[.;](?= |$)|$)",
     "a sentence with a main verb, or the noun: 'The parts that a run holds'"),
    ("of-fragment", rf"{START}Of(?: {OTHER})+(?:[.:;](?= |$)|$)", "a sentence: begin with its subject and give it a verb"),
    ("as-fragment", rf"{START}As(?! (?:predicted|expected|before|above|usual|always|planned|with)\b)(?: (?!\w*,){OTHER})+"
     rf"(?:[.:;](?= |$)|$)|{START}As(?: (?!\w*,){OTHER}){{1,3}} {CHAIN}(?: (?!\w*,){OTHER}){{0,2}}[.:;](?= |$)",
     "a sentence: 'It does the same as …', 'Like memcpy, but …'"),
    ("whose-fragment", rf"{START}Whose [^.?]*:", "a sentence that names whose it is"),
    ("who-for-whoever", rf"{START}Who (?![^.]*\?)\w+", "'Whoever …' or 'The caller that …'; a question ends with '?'"),
    ("prep-who", r"\b(?:to|by|for|from|with) who (?!knows\b|\w*'s\b)(?:[a-z]+s|has|are|can|may|came|did|made|took|wrote|[a-z]+ed)\b",
     "'by the one that …', 'by whoever …'"),
    ("one-a-row", rf"\b(?:(?<!the )(?<!this )(?<!that )(?<!any )(?<!which )(?<!no )one|(?<!gives )(?<!give )(?<!makes )(?<!calls )a [a-z]+) an? "
     rf"{UNIT}{CLAUSE_END}", "'one for each row', 'a scale per row'"),
    ("bare-nouns", rf"(?:\b(?:names?|naming|with|of|says?|has|have|holds?|from|gives?|takes?|makes?|needs?|tells?|reads?|writes?|keeps?)"
     rf"|^|[.:]) (?:{BARE}, )+{BARE},? (?:and|or) {BARE}\b(?!['’])", "articles: 'the file, the line and the column'"),
    ("such-as-verb", r"\bsuch as (?:go|goes|have|are|were|do|need|lie|is|can|may|come|run|want|had|hold)\b", "'those that go', 'values that need'"),
    ("such-alone", r"(?<!\bas )\bsuch[.;:)]|\bno such[.;:)]", "name the thing again: 'there is no window'"),
    ("such-a-one", r"\bsuch a one\b|\bsuch ones\b", "'one of these', or name the thing again"),
    ("in-turns", r"\b(?:in|by) turns\b", "'alternating', 'one after the other', 'in turn'"),
    ("also-where", r", also (?:where|when|if|while|without|after|across)\b", "'even where …', 'and where … as well'"),
    ("another-than", r"\banother [a-z]+ than\b", "'a different … from', 'a … other than'"),
    ("is-no", rf"\b(?:what|which|that|this) is no (?!{NO_NOUN}\b)\w+", "'is not a …'"),
    ("is-none", r"\b(?:that|which|what|it) is none\b(?! of)|\b(?:that|which|what) are none\b(?! of)", "'is not one', 'is not a picture'"),
    ("given-none", r"\b(?:was|were|is|are) given none\b", "'to which none was given', 'without one'"),
    ("others-not", r"\b(?:others?|ones|rest) not(?: at all)?[.;)]", "a verb: 'the others are not', 'the rest stays'"),
    ("behind-the-end", r"\bbehind (?:the|its) end\b|\bbehind the last (?:row|column|key|frame|step|word|value|token|byte|one)\b",
     "'past the end', 'after the last step'"),
    ("gone-on", r"\b(?:is|are|was|were|be|been) gone (?:on|through|over)\b", "'is continued', 'is resumed', 'is read through'"),
    ("which-is-said", r", which is said\b|\band said: |\b(?:and it|difference) is said[.;,]", "'and a message says so'"),
    ("told", r"\b(?:mistake|error|progress|warning|reason|repetition)s?(?: [a-z]+){0,4} (?:is|are|was|were) told\b(?! to| that| apart| what| how| which)",
     "'is reported', 'is shown'"),
    ("with-a-word", r"\b(?:refused|reported|ends?|ended|skipped|passed over|dropped|left out) with a word\b", "'with a message'"),
    ("of-whose", r"(?<!\beach )(?<!\ball )(?<!\bboth )(?<!\d )\bof whose\b", "two sentences, or 'whose …'"),
    ("as-there", r"\bas there[.;:),]", "name the place: 'as in the forward pass'"),
    ("of-before", r"\bof (?:before|afterwards)\b|\bthat of [a-z]+ before\b", "'from before …', 'earlier'"),
    ("makes-of", r"(?<!\bto )\bmakes? of (?:it|them|the same)\b", "'computes from it', 'reads in it'"),
    ("so-many", r"\b(?:takes|the last|the first|only|at most) so many\b|\bso many of an? "
     r"|\b(?:of|for|after) so many (?:[a-z]+|[a-z]+ [a-z]+)(?:[,;:.)]|$)", "'that many', 'the last n'"),
    ("dear", r"\b(?:dear(?! \w+[,!])|dearer|dearest)\b", "'costly', 'slow to compile', 'the slowest'"),
    ("old-word", r"\b(?:[Tt]hrice|[Uu]nawares|[Hh]itherto|[Tt]hereof|[Ww]hereof|[Hh]eretofore|[Ww]herewith|[Tt]herewith|[Hh]ereof|[Tt]wain)\b",
     "an everyday word: 'three times', 'until now', 'of it'"),
    ("to-be-had", r"\bto be had\b", "'there is', 'is available'"),
    ("has-it-so", r"\b(?:has|have) (?:it|them) so\b", "'does the same', 'keeps them like this'"),
    ("bit-by-bit", r"\bbit by bit\b", "'bit for bit'"),
    ("searched-in", r"\b(?:is|are)(?: only| also)? searched in (?!(?:this|that|the|any|which)(?: same)? order\b|order\b|parallel\b|turn\b|full\b)",
     "'is looked for in': what is searched is the place"),
    ("each-two", r"\bbetween each two\b", "'between every two'"),
    ("participle-first", rf"{START}[A-Z][a-z]+ed (?:are|is) (?:the|its|their|all|these|those)\b", "the usual order: 'The test counts …'"),
    ("verb-that", r"\b(?:goes|lies|stands) that (?:is|are|was|were|has|have)\b", "the clause directly after its noun"),
    ("which-alone", r"^which (?:itself|they|that [a-z]+|it)\b", "a sentence: 'the call above has changed it'"),
    ("bare-not", r"(?<![\w)] )(?:: not|, not|\(not)[.;)]", "a verb: 'switches it off', 'does not'"),
]
PATTERNS = [(name, re.compile(pattern), advice) for name, pattern, advice in PATTERNS]
