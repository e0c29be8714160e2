/* What `isis_env.batch.Batch` and a uniformly random player do on the standard board, as a plain C program on one
 * core: the yardstick of `make bench`. Same rules, same deals, same choices, same outputs, bit for bit; full recall,
 * returns of a win. `c_engine.py` compiles it, calls it and compares it with ours before anything is timed.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SIDE = 6, CELLS = 36, DRAW = CELLS, ACTIONS, SEATS = 4, TILES = 22, MAX_FACE = 4, FACE_SLOTS = 9 };
enum { EMPTY = -1, TILE = 4 }; /* on the board; a stone is the number of its seat */
enum { NOTHING = 0 };          /* no tile held, no tile on a cell */

/* The observation: planes of stones per relative seat, of tiles and of faces, then single numbers. */
enum {
    TILE_PLANE = SEATS * CELLS,
    FACE_PLANE = TILE_PLANE + CELLS,
    STONES_LEFT = FACE_PLANE + CELLS,
    TILES_LEFT = STONES_LEFT + SEATS,
    RESERVE = TILES_LEFT + SEATS,
    BOX,
    VARIANT,
    PLAYERS,
    ON_TURN = PLAYERS + 3,
    HELD = ON_TURN + SEATS,
    PROGRESS = HELD + 2 * MAX_FACE,
    UNREVEALED,
    SCORES = UNREVEALED + 2 * MAX_FACE,
    OBSERVATION = SCORES + SEATS
};

typedef struct {
    int8_t players, common_reserve, start, seat, held, placed;
    int8_t board[CELLS], face[CELLS];
    int8_t stones[SEATS], pile[SEATS];
    int8_t unrevealed[FACE_SLOTS]; /* by face + MAX_FACE */
    int8_t order[CELLS], placer[CELLS];
    int16_t score[SEATS];
} State;

typedef struct {
    State state, final_state;
    int8_t deck[TILES];
    uint64_t seed, episode;
} Game;

/* Where the pending decisions of all games go; `isis_env.batch.Turn`. */
typedef struct {
    float *observations; /* [games][OBSERVATION] */
    int8_t *masks;       /* [games][ACTIONS] */
    int64_t *seats;      /* [games] */
    double *rewards;     /* [games][SEATS] */
    bool *done;          /* [games] */
} Turn;

static const int8_t FACES[TILES] = {1,  1,  2,  2,  2,  2,  2,  2,  3,  3,  4,
                                    -1, -1, -2, -2, -2, -2, -2, -2, -3, -3, -4};
static const int8_t COPIES[FACE_SLOTS] = {1, 2, 6, 2, 0, 2, 6, 2, 1};
static const int8_t STONES_EACH[SEATS + 1] = {0, 0, 8, 6, 5};
static const int8_t TILES_EACH[SEATS + 1] = {0, 0, 11, 7, 5};

/* SplitMix64's output function of a place in the stream of `key`. */
static uint64_t random_bits(uint64_t key, uint64_t counter) {
    uint64_t x = key + (counter + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static int random_below(uint64_t key, uint64_t counter, int n) {
    return (int)((random_bits(key, counter) >> 11) % (uint64_t)n);
}

/* Shuffle the tiles, hand everything out and let the deal's start player begin. */
static void deal(Game *game) {
    State *s = &game->state;
    int8_t *deck = game->deck;
    uint64_t key = random_bits(random_bits(game->seed, game->episode), 0);
    memcpy(deck, FACES, TILES);
    for (int last = TILES - 1; last > 0; last--) {
        int chosen = random_below(key, last, last + 1);
        int8_t face = deck[last];
        deck[last] = deck[chosen];
        deck[chosen] = face;
    }
    s->start = s->seat = random_below(key, 0, s->players);
    s->held = NOTHING;
    s->placed = 0;
    memset(s->board, EMPTY, sizeof s->board);
    memset(s->face, NOTHING, sizeof s->face);
    memset(s->order, -1, sizeof s->order);
    memset(s->placer, -1, sizeof s->placer);
    memset(s->score, 0, sizeof s->score);
    memcpy(s->unrevealed, COPIES, sizeof s->unrevealed);
    for (int seat = 0; seat < SEATS; seat++) {
        s->stones[seat] = seat < s->players ? STONES_EACH[s->players] : 0;
        s->pile[seat] = seat < s->players && !s->common_reserve ? TILES_EACH[s->players] : 0;
    }
    if (s->common_reserve) s->pile[0] = TILES;
}

static int pile_of(const State *s, int seat) { return s->common_reserve ? 0 : seat; }

static void draw(Game *game) {
    State *s = &game->state;
    int pile = pile_of(s, s->seat);
    int end = s->common_reserve ? TILES : (s->seat + 1) * TILES_EACH[s->players];
    s->held = game->deck[end - s->pile[pile]];
    s->pile[pile]--;
    s->unrevealed[s->held + MAX_FACE]--;
}

/* Score the piece just placed on `cell` against what lies on the cell beside it. */
static void score_pair(State *s, int cell, int beside) {
    int piece = s->board[cell], other = s->board[beside];
    if (piece == TILE) {
        if (other != EMPTY && other != TILE) s->score[other] += s->face[cell];
    } else if (other == TILE) {
        s->score[piece] += s->face[beside];
    }
}

static void place(State *s, int cell) {
    if (s->held != NOTHING) {
        s->board[cell] = TILE;
        s->face[cell] = s->held;
        s->held = NOTHING;
    } else {
        s->board[cell] = s->seat;
        s->stones[s->seat]--;
    }
    int row = cell / SIDE, column = cell % SIDE;
    if (row > 0) score_pair(s, cell, cell - SIDE);
    if (column > 0) score_pair(s, cell, cell - 1);
    if (column < SIDE - 1) score_pair(s, cell, cell + 1);
    if (row < SIDE - 1) score_pair(s, cell, cell + SIDE);

    s->order[s->placed] = cell;
    s->placer[s->placed] = s->seat;
    s->placed++;
    if (s->placed == CELLS) return;
    int seat = s->seat;
    do {
        seat = seat + 1 == s->players ? 0 : seat + 1;
    } while (s->stones[seat] == 0 && s->pile[pile_of(s, seat)] == 0 && seat != s->seat);
    s->seat = seat;
}

/* The winners share 1, the others share -1; all tied, 0. */
static void returns(const State *s, double *rewards) {
    int best = s->score[0], winners = 0;
    for (int seat = 1; seat < s->players; seat++)
        if (s->score[seat] > best) best = s->score[seat];
    for (int seat = 0; seat < s->players; seat++) winners += s->score[seat] == best;
    if (winners == s->players) return;
    for (int seat = 0; seat < s->players; seat++)
        rewards[seat] = s->score[seat] == best ? 1.0 / winners : -1.0 / (s->players - winners);
}

static void observe(const State *s, float *out) {
    memset(out, 0, OBSERVATION * sizeof *out);
    for (int relative = 0; relative < s->players; relative++) {
        int seat = (s->seat + relative) % s->players;
        for (int cell = 0; cell < CELLS; cell++) out[relative * CELLS + cell] = s->board[cell] == seat;
        out[STONES_LEFT + relative] = s->stones[seat] / 8.0f;
        out[SCORES + relative] = s->score[seat] / 69.0f;
        if (!s->common_reserve) out[TILES_LEFT + relative] = s->pile[seat] / 11.0f;
    }
    for (int cell = 0; cell < CELLS; cell++) {
        out[TILE_PLANE + cell] = s->board[cell] == TILE;
        out[FACE_PLANE + cell] = s->face[cell] / 4.0f;
    }
    if (s->common_reserve) {
        out[RESERVE] = s->pile[0] / 22.0f;
        out[VARIANT] = 1;
    } else {
        out[BOX] = (TILES - s->players * TILES_EACH[s->players]) / 2.0f;
    }
    out[PLAYERS + s->players - 2] = 1;
    out[ON_TURN] = 1;
    if (s->held != NOTHING) out[HELD + (s->held < 0 ? s->held + MAX_FACE : s->held + MAX_FACE - 1)] = 1;
    out[PROGRESS] = s->placed / (float)CELLS;
    for (int i = 0; i < MAX_FACE; i++) {
        out[UNREVEALED + i] = s->unrevealed[i] / 6.0f;
        out[UNREVEALED + MAX_FACE + i] = s->unrevealed[MAX_FACE + 1 + i] / 6.0f;
    }
}

static void legal_mask(const State *s, int8_t *mask) {
    bool can_place = s->held != NOTHING || s->stones[s->seat] > 0;
    for (int cell = 0; cell < CELLS; cell++) mask[cell] = can_place && s->board[cell] == EMPTY;
    mask[DRAW] = s->held == NOTHING && s->pile[pile_of(s, s->seat)] > 0;
}

/* A uniformly random one of the legal actions. */
static int choose(const int8_t *mask, uint64_t seed) {
    int legal = 0;
    for (int action = 0; action < ACTIONS; action++) legal += mask[action];
    int skip = random_below(seed, 0, legal);
    for (int action = 0; action < ACTIONS; action++)
        if (mask[action] && skip-- == 0) return action;
    return -1; /* never: somebody can always move */
}

static void look(const Game *game, const Turn *turn, int64_t row) {
    observe(&game->state, turn->observations + row * OBSERVATION);
    legal_mask(&game->state, turn->masks + row * ACTIONS);
    turn->seats[row] = game->state.seat;
}

static void step(Game *game, int action, const Turn *turn, int64_t row) {
    if (action == DRAW)
        draw(game);
    else
        place(&game->state, action);
    double *rewards = turn->rewards + row * SEATS;
    memset(rewards, 0, SEATS * sizeof *rewards);
    turn->done[row] = game->state.placed == CELLS;
    if (turn->done[row]) {
        returns(&game->state, rewards);
        game->final_state = game->state;
        game->episode++;
        deal(game);
    }
    look(game, turn, row);
}

int64_t game_size(void) { return sizeof(Game); }

/* Begin the first game of every row; row i takes seed + i. */
void reset(Game *games, int64_t count, int players, bool common_reserve, uint64_t seed, const Turn *turn) {
    for (int64_t row = 0; row < count; row++) {
        Game *game = &games[row];
        game->state.players = players;
        game->state.common_reserve = common_reserve;
        game->seed = seed + row;
        game->episode = 0;
        deal(game);
        look(game, turn, row);
        turn->done[row] = false;
        memset(turn->rewards + row * SEATS, 0, SEATS * sizeof(double));
    }
}

/* Take `steps` random legal actions in each of rows first .. last - 1 of `count`; `seeds` [steps][count]. */
void play(Game *games, int64_t count, int64_t first, int64_t last, int64_t steps, const uint64_t *seeds,
          const Turn *turn) {
    for (int64_t i = 0; i < steps; i++)
        for (int64_t row = first; row < last; row++)
            step(&games[row], choose(turn->masks + row * ACTIONS, seeds[i * count + row]), turn, row);
}
